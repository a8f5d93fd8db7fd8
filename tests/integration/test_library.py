"""The cache inside a program: `stepwell.Cache`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.embedded import needs_the_engine
from support.gateway import question

import stepwell
from stepwell.core.events import Result
from stepwell.testing.fake_upstream import FakeUpstream, Script

HI = question("hi")


async def test_complete_then_lookup(upstream: FakeUpstream) -> None:
    """The first answer comes from the model server, the next from the cache, whole and the same."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        assert await cache.lookup(HI) is None
        first = await cache.complete(HI)
        again = await cache.complete(HI)
        found = await cache.lookup(HI)
    assert (first.result, first.hit, first.status) == (Result.MISS, False, 200)
    assert (again.result, again.hit) == (Result.HIT, True)
    assert found is not None
    assert again.body == first.body == found.body
    assert first.json()["choices"][0]["message"]["content"].endswith("echo: hi")
    assert 3_590 < again.ttl_seconds <= 3_600
    assert again.key == first.key
    assert upstream.call_count == 1


async def test_streams_share_entries_with_whole_answers(upstream: FakeUpstream) -> None:
    """A stream fills the cache for `complete`, and the reverse."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        async with await cache.stream(HI) as live:
            body = b"".join([chunk async for chunk in live])
        assert live.result == Result.MISS
        assert body.endswith(b"data: [DONE]\n\n")
        assert (await cache.complete({**HI, "stream": True})).result == Result.HIT
        async with await cache.stream(HI) as replay:
            assert b"".join([chunk async for chunk in replay]) == body
        assert replay.result == Result.HIT
    assert upstream.call_count == 1


async def test_leaving_a_stream_cancels_the_call(upstream: FakeUpstream) -> None:
    """Nobody reads it any more, so the model server may stop."""
    upstream.queue.append(Script(resume=asyncio.Event(), after_events=1))
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        async with await cache.stream(HI) as live:
            async for _ in live:
                break
        async with asyncio.timeout(5):
            await upstream.calls[0].abandoned.wait()


async def test_identical_calls_at_once_cost_one(upstream: FakeUpstream) -> None:
    """Single-flight works without a gateway."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        answers = await asyncio.gather(*[cache.complete(HI) for _ in range(50)])
    assert {answer.body for answer in answers} == {answers[0].body}
    assert upstream.call_count == 1


async def test_entries_survive_in_a_data_directory(upstream: FakeUpstream, tmp_path: Path) -> None:
    """With a directory the next run finds them; another tenant does not."""
    for expected in (Result.MISS, Result.HIT):
        async with stepwell.Cache(upstream=upstream.base_url, data_dir=tmp_path) as cache:
            assert (await cache.complete(HI)).result == expected
    async with stepwell.Cache(upstream=upstream.base_url, data_dir=tmp_path, tenant="b") as cache:
        assert await cache.lookup(HI) is None


async def test_invalidate(upstream: FakeUpstream) -> None:
    """What matches goes; saying nothing is refused."""
    tagged = {**HI, "metadata": {"stepwell_tags": "faq"}}
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        answer = await cache.complete(tagged)
        await cache.complete(question("other"))
        assert await cache.invalidate(tag="nothing") == 0
        assert await cache.invalidate(tag="faq") == 1
        assert await cache.lookup(tagged) is None
        await cache.complete(tagged)
        assert await cache.invalidate(key=answer.key) == 1
        with pytest.raises(stepwell.ConfigError):
            await cache.invalidate()
        assert await cache.invalidate(everything=True) == 1


async def test_a_moved_source_makes_entries_stale(upstream: FakeUpstream) -> None:
    """Entries made under the old value are never served again."""
    asked = {**HI, "metadata": {"stepwell_class": "faq"}}
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        await cache.complete(asked)
        assert (await cache.complete(asked)).hit
        assert await cache.move_source("last_updated", "2026-11-30")
        assert await cache.lookup(asked) is None
        assert not (await cache.complete(asked)).hit
        assert (await cache.complete(asked)).hit


async def test_errors(upstream: FakeUpstream) -> None:
    """A refusal of the model server is an answer; a broken one, and a broken request, raise."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        refused = await cache.complete(question("hi", model="fake-429"))
        assert (refused.status, refused.result) == (429, Result.MISS)
        with pytest.raises(stepwell.UpstreamBroken):
            await cache.complete(question("hi", model="fake-no-reply"))
        for wrong in ({"model": "m"}, {**HI, "messages": "hi"}, {**HI, "x": float("nan")}):
            with pytest.raises(stepwell.RequestError):
                await cache.complete(wrong)


async def test_statement(upstream: FakeUpstream) -> None:
    """The cache says what it saved; looking in vain counts for nothing."""
    prices = {"prices": {"models": {"*": {"input_per_million": 1, "output_per_million": 1}}}}
    async with stepwell.Cache(prices, upstream=upstream.base_url) as cache:
        await cache.lookup(HI)
        await cache.complete(HI)
        await cache.complete(HI)
        statement = cache.statement()
    assert statement.by_result == {"hit": 1, "miss": 1}
    assert statement.calls_avoided == 1
    assert statement.saved.money == statement.spent.money


@pytest.mark.parametrize(
    "settings", [{"servr": {}}, {"classes": {"faq": {"ttl_seconds": -1}}}, Path("/no/such.toml")]
)
def test_wrong_settings_are_refused_at_once(settings: Any) -> None:
    """Before anything is opened."""
    with pytest.raises(stepwell.ConfigError):
        stepwell.Cache(settings)


async def test_a_cache_must_be_entered() -> None:
    """It says so."""
    with pytest.raises(RuntimeError, match="async with"):
        await stepwell.Cache().lookup(HI)


async def test_memo(upstream: FakeUpstream, tmp_path: Path) -> None:
    """Values of a program's own are kept, shared and invalidated as answers are."""
    async with (
        stepwell.Cache(upstream=upstream.base_url, data_dir=tmp_path) as one,
        stepwell.Cache(upstream=upstream.base_url, data_dir=tmp_path) as two,
    ):
        await one.memo("notes", ttl_seconds=60).put(("a", "b"), b"1")
        await one.memo("more", ttl_seconds=60).put(("a", "b"), b"2")
        assert await two.memo("notes", ttl_seconds=60).get(("a", "b")) == b"1"
        assert await two.memo("notes", ttl_seconds=60).get(("ab", "")) is None
        assert await two.memo("notes", ttl_seconds=60).clear() == 1
        assert await one.memo("notes", ttl_seconds=60).get(("a", "b")) is None
        assert await one.invalidate(request_class="memo") == 1
        assert await one.memo("more", ttl_seconds=60).get(("a", "b")) is None
    assert upstream.call_count == 0


@pytest.mark.embedded
@needs_the_engine
async def test_the_embedded_model_answers(tmp_path: Path) -> None:
    """Without an upstream it starts at the first miss, and not at all for what is known."""
    request = {**HI, "model": "smollm2-135m-instruct", "temperature": 0, "max_tokens": 2}
    settings = {"classes": {"general": {"store_truncated": True}}}
    for expected in (Result.MISS, Result.HIT):
        async with stepwell.Cache(settings, data_dir=tmp_path) as cache:
            answer = await cache.complete(request)
        assert (answer.status, answer.result) == (200, expected)


async def test_the_embedded_model_needs_a_directory() -> None:
    """The message says what else would do."""
    with pytest.raises(stepwell.ConfigError, match="data_dir, or upstream"):
        async with stepwell.Cache():
            pass


async def test_a_secret_of_the_settings(
    upstream: FakeUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it, programs on several machines have the same tenants."""
    monkeypatch.setenv("STEPWELL_TEST_SECRET", "the same everywhere")
    settings = {"auth": {"namespace_secret_env": "STEPWELL_TEST_SECRET"}}
    keys = set()
    for machine in ("one", "two"):
        folder = tmp_path / machine
        async with stepwell.Cache(settings, upstream=upstream.base_url, data_dir=folder) as cache:
            keys.add((await cache.complete(HI)).key)
    assert len(keys) == 1
