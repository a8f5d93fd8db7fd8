"""A gateway that is asked to stop: what it is sent meanwhile, and what it has begun."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.command import Command, is_ready, running_command
from support.gateway import question
from support.raw_http import head, raw_client, request
from support.redis_servers import PATIENCE_SECONDS

from stepwell.testing.fake_upstream import FakeUpstream, Script

HELD = "held"
WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None"
BODY = json.dumps(question("hi")).encode()


def settings(upstream: FakeUpstream, **server: Any) -> dict[str, Any]:
    return {
        "upstreams": {"fake": {"base_url": upstream.base_url}},
        "semantic": {"embedder": "off"},
        "server": {"shutdown_seconds": PATIENCE_SECONDS, **server},
    }


async def until_not_ready(gateway: Command) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await is_ready(gateway):  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("workers", "before"), [(1, ""), (2, ""), (1, WITHOUT_UVLOOP)], ids=["one", "two", "asyncio"]
)
async def test_what_is_sent_during_a_drain_is_answered(
    upstream: FakeUpstream, tmp_path: Path, workers: int, before: str
) -> None:
    """On old connections and new ones, repeats too; each answer says that it was the last here."""
    tables = settings(upstream, drain_seconds=3, workers=workers)
    async with running_command(tmp_path, tables, before=before) as gateway:
        async with raw_client(gateway) as kept:
            for _ in range(3):
                await kept.send(request(BODY))
                assert "connection" not in (await kept.answer()).headers
            gateway.stop()
            await until_not_ready(gateway)
            page = await gateway.get("/readyz")
            assert (page.status, json.loads(page.body)["status"]) == (503, "draining")
            assert (await gateway.get("/healthz")).status == 200
            await kept.send(request(BODY))
            answer = await kept.answer()
            assert (answer.status, answer.headers["x-cache"]) == (200, "HIT")
            assert answer.headers["connection"] == "close"
            assert await kept.rest() == b""
        async with raw_client(gateway) as new:
            await new.send(request(BODY))
            answer = await new.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await gateway.ended() == 0
    assert b"error" not in gateway.log.read_bytes()


@pytest.mark.parametrize("drain_seconds", [0, 0.2])
async def test_what_has_begun_ends_whole(
    upstream: FakeUpstream, tmp_path: Path, drain_seconds: float
) -> None:
    """A stream under way, and a request of which half had come, also after the drain."""
    go_on = asyncio.Event()
    upstream.scripts[HELD] = Script(resume=go_on)
    tables = settings(upstream, drain_seconds=drain_seconds)
    async with running_command(tmp_path, tables) as gateway, raw_client(gateway) as half:
        stream = asyncio.create_task(gateway.ask("q", model=HELD, stream=True))
        await upstream.wait_for_calls(1)
        length = b"content-length: %d\r\n\r\n" % len(BODY)
        await half.send(head() + length + BODY[:9])
        gateway.stop()
        await _until_closed(gateway)
        await half.send(BODY[9:])
        answer = await half.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        go_on.set()
        assert (await stream).body.endswith(b"[DONE]\n\n")
        assert await gateway.ended() == 0


async def test_workers_that_are_left_alone_do_not_drain(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Their parent was killed, and its successor wants the address: they leave it, in order."""
    tables = settings(upstream, drain_seconds=3_600, workers=2)
    async with running_command(tmp_path, tables) as gateway:
        await gateway.ask("q")
        gateway.process.kill()
        await gateway.ended()
        await _until_closed(gateway)


async def _until_closed(gateway: Command) -> None:
    """Return when no new connection is taken."""
    where = urlsplit(gateway.origin)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(where.hostname, where.port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)
