"""Two versions of the package share a Redis while gateways are replaced one by one.

The newer one is this one with a version raised before it starts.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.command import Command, running_command
from support.metrics import total
from support.redis_servers import PATIENCE_SECONDS, RedisServer, redis_servers

from stepwell.testing.fake_upstream import FakeUpstream

RECORD = "from stepwell.stores import record; record.VERSION += 1"
FACETS = "from stepwell.stores.redis import facets; facets.VERSION += 1"
MESSAGES = "from stepwell.stores import messages; messages.VERSION += 1"

TAGGED = {"X-Stepwell-Tags": "cows"}
ASKED = "What is a cow?"
PAUSE_SECONDS = 0.2
"""Of a feed that was torn, before it can be torn again."""


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 64mb", "maxmemory-policy volatile-lru")


class Fleet:
    """Gateways of two versions on one Redis."""

    def __init__(self, stack: AsyncExitStack, place: Path, settings: dict[str, Any]) -> None:
        self._stack = stack
        self._place = place
        self._settings = settings

    async def start(self, name: str, raised: str = "") -> Command:
        """Start a gateway, of a newer version if something is raised."""
        return await self._stack.enter_async_context(
            running_command(self._place / name, self._settings, before=raised)
        )


@pytest.fixture
async def fleet(redis: RedisServer, upstream: FakeUpstream, tmp_path: Path) -> AsyncIterator[Fleet]:
    settings = {
        "upstreams": {"fake": {"base_url": upstream.base_url}},
        "stores": {"redis": {"url": redis.url}},
        "semantic": {"embedder": "off"},
    }
    async with AsyncExitStack() as stack:
        yield Fleet(stack, tmp_path, settings)


async def outcome(gateway: Command, text: str = ASKED, **fields: Any) -> str:
    answer = await gateway.ask(text, **fields)
    assert answer.status == 200
    assert f"echo: {text}".encode() in answer.body
    return str(answer.headers["x-cache"])


async def becomes(wanted: str, gateway: Command, text: str = ASKED) -> None:
    """Return when a question has this outcome; it is asked without storing."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await outcome(gateway, text, headers={"Cache-Control": "no-store"}) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def version_of(redis: RedisServer) -> bytes:
    """Return the versions of the one entry in Redis. It is put there behind the answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (names := redis.ask("KEYS", "stepwell:e:*")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (name,) = names
    return bytes(redis.ask("GETRANGE", name, 3, 5))


async def invalidate(gateway: Command, **selector: Any) -> None:
    answer = await gateway.post({**selector, "dry_run": False}, path="/admin/invalidate", key=None)
    assert answer.status == 200


@pytest.mark.parametrize("raised", [RECORD, FACETS], ids=["record", "facets"])
async def test_neither_reads_nor_removes_what_the_other_wrote(
    fleet: Fleet, redis: RedisServer, upstream: FakeUpstream, raised: str
) -> None:
    """One asks anew, once, and keeps that to itself; when it is replaced, all share again."""
    old, new = await fleet.start("old"), await fleet.start("new", raised)
    assert await outcome(old) == "MISS"
    older = await version_of(redis)
    assert await outcome(new) == "MISS"
    await becomes("HIT", new)
    newer = await version_of(redis)
    assert newer != older
    await becomes("MISS", old)  # the newer took its place
    assert await outcome(old) == "MISS"
    await becomes("HIT", old)
    for _ in range(3):
        assert [await outcome(old), await outcome(new)] == ["HIT", "HIT"]
    assert await version_of(redis) == newer
    for gateway in (old, new):
        assert await total(gateway, "stepwell_failures_total") == 0

    old.stop()
    await old.ended()
    replaced, calls = await fleet.start("replaced", raised), upstream.call_count
    assert await outcome(replaced) == "HIT"
    assert upstream.call_count == calls


@pytest.mark.parametrize("raised", [RECORD, FACETS, MESSAGES], ids=["record", "facets", "messages"])
async def test_what_is_said_through_one_is_obeyed_by_both(
    fleet: Fleet, redis: RedisServer, raised: str
) -> None:
    """An invalidated tag, a moved source, whichever of the two is told.

    Facets that both can read let either remove what the other wrote.
    """
    gateways = [await fleet.start("old"), await fleet.start("new", raised)]
    for told in gateways:
        for gateway in gateways:
            await outcome(gateway, headers=TAGGED)
            await becomes("HIT", gateway)
        await invalidate(told, tag="cows")
        assert raised == FACETS or redis.ask("KEYS", "stepwell:e:*") == []
        for gateway in gateways:
            await becomes("MISS", gateway)

        for number, gateway in enumerate(gateways):
            await outcome(gateway, f"{number}", headers={"X-Stepwell-Sources": "herd=1"})
            await becomes("HIT", gateway, f"{number}")
        moved = await told.post({"name": "herd", "value": "2"}, path="/admin/sources", key=None)
        assert json.loads(moved.body) == {"moved": True}
        for number, gateway in enumerate(gateways):
            await becomes("MISS", gateway, f"{number}")
        await told.post({"name": "herd", "value": "1"}, path="/admin/sources", key=None)
        await invalidate(told, everything=True)
        for number, gateway in enumerate(gateways):
            await becomes("MISS", gateway, f"{number}")


async def test_a_feed_in_words_of_a_newer_version(
    fleet: Fleet, redis: RedisServer, upstream: FakeUpstream
) -> None:
    """What is said in them means all that is older; a flood of it costs a few connections."""
    old, new = await fleet.start("old"), await fleet.start("new", MESSAGES)
    assert await outcome(old) == "MISS"
    await becomes("HIT", new)  # records are the same
    before, began = int(redis.info("stats")["total_connections_received"]), time.monotonic()
    for number in range(100):
        moved = await new.post({"name": "s", "value": f"{number}"}, path="/admin/sources", key=None)
        assert moved.status == 200
    made = int(redis.info("stats")["total_connections_received"]) - before
    # Each move has a connection of its own (`run_durably`); the torn feed has one after each pause.
    assert 0 < made - 100 <= (time.monotonic() - began) / PAUSE_SECONDS + 2
    calls = upstream.call_count
    await becomes("HIT", old)  # it hears again; none of it was an invalidation
    await invalidate(new, tag="anything")
    await becomes("MISS", old)
    assert upstream.call_count > calls
    assert await outcome(old) == "MISS"
    await becomes("HIT", old)
    await becomes("HIT", new)
