"""Several gateways, one Redis: what one learns the others know, and an outage costs time only."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command import SECRET, running_command
from support.gateway import Gateway, question, running_gateway
from support.metrics import total
from support.redis_servers import PATIENCE_SECONDS, RedisServer, redis_servers

from stepwell.testing.fake_upstream import FakeUpstream

Start = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 64mb", "maxmemory-policy volatile-lru")


@pytest.fixture
def start(redis: RedisServer, upstream: FakeUpstream, tmp_path: Path) -> Start:
    """Start gateways on one Redis, each with a data directory of its own."""

    @asynccontextmanager
    async def start(name: str = "one", log: str = "off", **table: Any) -> AsyncIterator[Gateway]:
        settings = {
            "stores": {"redis": {"url": redis.url, **table}},
            "semantic": {"embedder": "off"},
            "log": {"target": log},
        }
        async with running_gateway(tmp_path / name, upstream.base_url, settings) as gateway:
            yield gateway

    return start


async def outcome(gateway: Gateway, text: str, **fields: Any) -> str:
    answer = await gateway.ask(text, **fields)
    assert answer.status == 200
    return str(answer.headers["x-cache"])


async def becomes(wanted: str, gateway: Gateway, text: str) -> None:
    """Return when a question has this outcome; it is asked without storing."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await outcome(gateway, text, headers={"Cache-Control": "no-store"}) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def until(gateway: Gateway, *, wanted: bool) -> None:
    """Return when a gateway's readiness page says that Redis is bypassed, or not."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = json.loads((await gateway.get("/readyz")).body)
            assert page["status"] == "ready"
            if ("redis" in page["degraded"]) is wanted:
                return
            await asyncio.sleep(0.02)


async def stored(redis: RedisServer, count: int) -> None:
    """Return when Redis has so many entries: they are put behind the answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(redis.ask("KEYS", "stepwell:e:*")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_one_learns_the_others_know(
    start: Start, redis: RedisServer, upstream: FakeUpstream
) -> None:
    """Answers, also after a restart; and their tenants stay apart."""
    async with start("one") as one, start("two") as two:
        assert await outcome(one, "What is a cow?") == "MISS"
        await stored(redis, 1)
        answer = await two.ask("What is a cow?")
        assert answer.headers["x-cache"] == "HIT"
        assert await outcome(two, "What is a cow?", key="sk-another") == "MISS"
    async with start("three") as three:
        assert await outcome(three, "What is a cow?") == "HIT"
    assert upstream.call_count == 2


async def test_what_one_forgets_all_forget(start: Start, redis: RedisServer) -> None:
    """An invalidated tag, a moved source: obeyed by a gateway that holds a copy in memory."""
    tagged = {"headers": {"X-Stepwell-Tags": "cows", "X-Stepwell-Sources": "herd=1"}}
    async with start("one") as one, start("two") as two:
        for gateway in (one, two):
            await outcome(gateway, "What is a cow?", **tagged)
            await stored(redis, 1)
        assert await outcome(two, "What is a cow?", **tagged) == "HIT"
        removed = await one.post(
            {"tag": "cows", "dry_run": False}, path="/admin/invalidate", key=None
        )
        assert json.loads(removed.body) == {"matched": 1, "removed": 1}
        await asyncio.sleep(0.2)  # the stated bound is a second
        assert await outcome(two, "What is a cow?", **tagged) == "MISS"
        await one.post({"name": "herd", "value": "2"}, path="/admin/sources", key=None)
        await asyncio.sleep(0.2)
        asked = {"Cache-Control": "only-if-cached", "X-Stepwell-Tags": "cows"}
        asked["X-Stepwell-Sources"] = "herd=2"
        assert (await two.ask("What is a cow?", headers=asked)).status == 504


@pytest.mark.parametrize("how", ["pause", "kill"])
async def test_an_outage_costs_time_only(
    start: Start, redis: RedisServer, upstream: FakeUpstream, how: str
) -> None:
    """No request fails; nothing that may be out of date is served; afterwards all is well."""
    async with start("one") as one, start("two", max_lag_seconds=600.0) as two:
        for gateway in (one, two):
            await outcome(gateway, "What is a cow?")
            await stored(redis, 1)
        getattr(redis, how)()
        for number in range(20):
            assert await outcome(one, f"Question {number}") == "MISS"
        await until(one, wanted=True)
        assert await total(one, "stepwell_degraded", part="redis") == 1
        await becomes("MISS", one, "What is a cow?")
        # Who may serve what is held longer, does.
        assert await outcome(two, "What is a cow?") == "HIT"
        removed = await one.post(
            {"everything": True, "dry_run": False}, path="/admin/invalidate", key=None
        )
        assert removed.status == 503
        if how == "pause":
            redis.resume()
        else:
            redis.start()
        await until(one, wanted=False)
        assert await total(one, "stepwell_degraded", part="redis") == 0
        before = upstream.call_count
        assert await outcome(one, "Another") == "MISS"
        await stored(redis, 1)
        await until(two, wanted=False)
        await becomes("HIT", two, "Another")
        assert upstream.call_count >= before + 1


@pytest.mark.parametrize("how", ["pause", "kill"])
async def test_an_outage_has_two_lines(
    start: Start, redis: RedisServer, capfd: pytest.CaptureFixture[str], how: str
) -> None:
    """One when it begins, and one when it ends; before it is known for one, a failure is told."""
    async with start("one", log="stderr") as one:
        await outcome(one, "What is a cow?")
        await stored(redis, 1)
        getattr(redis, how)()
        for number in range(20):
            assert await outcome(one, f"Question {number}") == "MISS"
        await until(one, wanted=True)
        await asyncio.sleep(1.5)  # the feed notices, too, and is looked for again
        for number in range(20):
            assert await outcome(one, f"Another question {number}") == "MISS"
        await asyncio.to_thread(redis.resume if how == "pause" else redis.start)
        await until(one, wanted=False)
        await asyncio.sleep(0.2)  # lines wait for others a tenth of a second
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
        told = [(line["event"], line.get("part")) for line in lines if line["event"] != "request"]
        assert [event for event, part in told if part == "redis"] == ["bypassed", "resumed"]
        # Vectors have a connection of their own, which may notice nothing, or be back later.
        vectors = [event for event, part in told if part == "embeddings.redis"]
        assert vectors == ["bypassed", "resumed"][: len(vectors)]
        assert [event for event, part in told if part is None] in ([], ["degraded"])


async def test_redis_is_not_there(start: Start, redis: RedisServer) -> None:
    """The gateway starts without it, and takes it up when it comes."""
    redis.kill()
    async with start("one") as one:
        assert await outcome(one, "What is a cow?") == "MISS"
        await until(one, wanted=True)
        redis.start()
        await until(one, wanted=False)
        await outcome(one, "What is a cow?")
        await becomes("HIT", one, "What is a cow?")


async def stepwell(*words: str) -> tuple[int, str]:
    """Run a command with the secret of all gateways; return its exit code and what it says."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stepwell.cli.main", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NAMESPACE_SECRET": SECRET, "KEY": "sk-test"},
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_commands_look_at_the_same_redis(
    redis: RedisServer, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """By the option that the gateway has."""
    settings = {
        "upstreams": {"fake": {"base_url": upstream.base_url}},
        "stores": {"redis": {"url": redis.url}},
        "semantic": {"embedder": "off"},
    }
    body = tmp_path / "body.json"
    body.write_text(json.dumps(question("What is a cow?")))
    async with running_command(tmp_path / "one", settings) as gateway:
        assert await outcome(gateway, "What is a cow?") == "MISS"
        await stored(redis, 1)
        file = tmp_path / "one" / "stepwell.toml"
        file.write_text(file.read_text().replace(f'url = "{redis.url}"', ""))
        here = ("--config", str(file), "--redis", redis.url)
        status, said = await stepwell("explain", str(body), "--api-key-env", "KEY", *here)
        assert (status, "exact: hit in redis" in said) == (0, True), said
        removed = await stepwell("invalidate", "--everything", "--yes", *here)
        assert removed == (0, "Removed 1 entry.\n")
        assert await outcome(gateway, "What is a cow?") == "MISS"


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_start_that_fails_says_so_to_who_started_it(
    redis: RedisServer, tmp_path: Path, workers: str
) -> None:
    """A service manager would take 0 for an end that was meant."""
    status, said = await stepwell(
        *("serve", "--redis", f"{redis.url}/99", "--workers", workers, "--port", "0"),
        *("--upstream", "http://127.0.0.1:9/v1", "--data", str(tmp_path)),
    )
    assert (status, "99" in said) == (3, True), said
