"""Answers to other words in a program, with the real embedder."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import openai
import pytest

import stepwell
from stepwell.core.judgement import read_verdict
from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
ASKED = "What is the way to return shoes I bought online?"
SETTINGS: dict[str, Any] = {"semantic": {"embedder": "multilingual", "timeout_seconds": 10.0}}


def question(text: str) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": text}]}


async def soon(cache: stepwell.Cache, text: str) -> stepwell.CachedAnswer:
    """Return the cached answer, once the embedder is loaded and the words are learned."""
    async with asyncio.timeout(60):
        while (answer := await cache.lookup(question(text))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return answer


@pytest.mark.parametrize("kept", [True, False])
async def test_other_words(upstream: FakeUpstream, tmp_path: Path, *, kept: bool) -> None:
    """Found by meaning, judged, and never given again; with and without a data directory."""
    data_dir = tmp_path / "data" if kept else None
    async with stepwell.Cache(SETTINGS, upstream=upstream.base_url, data_dir=data_dir) as cache:
        first = await cache.complete(question(STORED))
        hit = await soon(cache, ASKED)
        assert hit.body == first.body
        assert hit.trail[-1].startswith("semantic: hit")
        with pytest.raises(stepwell.RequestError, match="Nothing to judge"):
            await cache.feedback(first, "wrong")
        with pytest.raises(stepwell.RequestError, match="'verdict' is 'maybe'"):
            await cache.feedback(hit, "maybe")  # type: ignore[arg-type]
        await cache.feedback(hit, "wrong")
        assert await cache.lookup(question(ASKED)) is None
        await cache.feedback(hit.hit_id, "right")
        assert await cache.lookup(question(ASKED)) is not None
        await cache.feedback(hit, "wrong", delete=True)
        assert await cache.lookup(question(STORED)) is None
    assert upstream.call_count == 1


async def test_a_program_that_starts_finds_what_another_left(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Entering waits until other words can be found: nothing is asked in vain."""
    async with stepwell.Cache(SETTINGS, upstream=upstream.base_url, data_dir=tmp_path) as cache:
        await cache.complete(question(STORED))
    async with stepwell.Cache(SETTINGS, upstream=upstream.base_url, data_dir=tmp_path) as cache:
        assert (await cache.complete(question(ASKED))).hit
    assert upstream.call_count == 1


@pytest.mark.parametrize("embedder", ["english", "universal"])
async def test_the_other_bundled_embedders(upstream: FakeUpstream, embedder: str) -> None:
    """They are there by their names in the settings."""
    table = {**SETTINGS["semantic"], "embedder": embedder, "levels": {"general": 0.5, "faq": 0.5}}
    async with stepwell.Cache({"semantic": table}, upstream=upstream.base_url) as cache:
        await cache.complete(question(STORED))
        assert (await soon(cache, ASKED)).hit


async def test_a_wrapped_client(upstream: FakeUpstream) -> None:
    """The cache in a client finds other words too."""
    async with (
        openai.AsyncOpenAI(base_url=upstream.base_url, api_key="sk-a", max_retries=0) as inner,
        stepwell.wrap(inner, SETTINGS) as client,
    ):
        ask = client.chat.completions.with_raw_response.create

        async def outcome(text: str) -> str:
            reply = await ask(**question(text), extra_headers={"Cache-Control": "no-store"})
            return str(reply.headers["x-cache"])

        await ask(**question(STORED))
        async with asyncio.timeout(60):
            while await outcome(ASKED) != "HIT":  # noqa: ASYNC110
                await asyncio.sleep(0.2)


def test_a_wrapped_client_of_many_threads(upstream: FakeUpstream) -> None:
    """The synchronous one stops its embedder when it is closed."""
    with openai.OpenAI(base_url=upstream.base_url, api_key="sk-a", max_retries=0) as inner:
        others = child_processes()  # of other tests
        client = stepwell.wrap(inner, SETTINGS)
        deadline = time.monotonic() + 30
        while not (children := child_processes() - others):  # a thread starts it
            assert time.monotonic() < deadline
            time.sleep(0.01)
        client.close()
        assert not children & child_processes()


def child_processes() -> set[int]:
    """Return the numbers of this process's children that live."""
    found = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(child) for path in found for child in path.read_text().split()}


async def test_off_unless_asked_for(upstream: FakeUpstream) -> None:
    """A library starts no process by itself; a hit that is none cannot be judged."""
    async with stepwell.Cache(upstream=upstream.base_url) as cache:
        await cache.complete(question(STORED))
        assert await cache.lookup(question(ASKED)) is None
        with pytest.raises(stepwell.RequestError, match="no semantic layer"):
            await cache.feedback("A" * 70, "wrong")
        for nothing in (None, 5, b"x"):
            with pytest.raises(stepwell.RequestError, match="neither an answer nor its hit_id"):
                await cache.feedback(nothing, "wrong")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdict", "shown"), [("maybe", "'maybe'"), (5, "int"), (None, "NoneType"), ([], "list")]
)
def test_what_is_no_verdict(verdict: object, shown: str) -> None:
    with pytest.raises(stepwell.RequestError, match=f"'verdict' is {shown}: expected"):
        read_verdict(verdict)


async def test_settings_that_cannot_be_used(upstream: FakeUpstream) -> None:
    """Named before anything starts."""
    for semantic in ({"embedder": "none"}, {"embedder": "endpoint"}, {"levels": {"strict": 1.5}}):
        with pytest.raises(stepwell.ConfigError, match="semantic"):
            stepwell.Cache({"semantic": semantic}, upstream=upstream.base_url)
    levels = {"semantic": {"embedder": "multilingual", "levels": {"general": 0.99}}}
    with pytest.raises(stepwell.ConfigError, match="strict >= general >= faq"):
        async with stepwell.Cache(levels, upstream=upstream.base_url):
            pass
