"""Gateways that are replaced while they are used: nobody notices."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from support.command import Command, is_ready, running_command
from support.gateway import question
from support.raw_http import head, raw_client, request
from support.redis_servers import PATIENCE_SECONDS, free_port

from stepwell.testing.fake_upstream import FakeUpstream, Script

SLOW = Script(event_delay_seconds=0.05)
HELD = "held"
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


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_is_sent_during_a_drain_is_answered(
    upstream: FakeUpstream, tmp_path: Path, workers: int
) -> None:
    """On old connections and new ones, repeats too; each answer says that it was the last here."""
    tables = settings(upstream, drain_seconds=3, workers=workers)
    async with running_command(tmp_path, tables) as gateway:
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


@dataclass
class Balancer:
    """Sends each request to a gateway that was ready when it last looked; tries none twice."""

    ports: list[int]
    http: aiohttp.ClientSession
    ready: list[str] = field(default_factory=list)
    turn: int = 0

    async def watch(self) -> None:
        """Look at the gateways, again and again."""
        while True:
            origins = [f"http://127.0.0.1:{port}" for port in self.ports]
            looked = await asyncio.gather(*map(self._is_ready, origins))
            self.ready = [origin for origin, ready in zip(origins, looked, strict=True) if ready]
            await asyncio.sleep(0.1)

    async def _is_ready(self, origin: str) -> bool:
        try:
            async with self.http.get(f"{origin}/readyz", headers={"connection": "close"}) as page:
                return page.status == 200
        except aiohttp.ClientError:
            return False

    async def ask(self, text: str, **fields: Any) -> bytes:
        """Return an answer; raises if it is not whole."""
        self.turn += 1
        origin = self.ready[self.turn % len(self.ready)]
        async with self.http.post(
            f"{origin}/v1/chat/completions",
            json=question(text, **fields),
            headers={"authorization": "Bearer key"},
        ) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.read()


async def _load(balancer: Balancer, name: str, seen: Counter[str], stop: asyncio.Event) -> None:
    """Ask for repeats, for what is new, and for slow streams, one after the other."""
    number = 0
    while not stop.is_set():
        number += 1
        text = f"{name} asks {number}"
        for kind, body in (
            ("repeat", await balancer.ask("What is a cow?")),
            ("new", await balancer.ask(text)),
            ("stream", await balancer.ask(text, model="slow", stream=True)),
        ):
            whole = body.endswith(b"[DONE]\n\n") if kind == "stream" else b"echo: " in body
            seen[kind if whole else "truncated"] += 1


@asynccontextmanager
async def _balanced(ports: list[int]) -> AsyncIterator[Balancer]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        balancer = Balancer(ports, http)
        watching = asyncio.create_task(balancer.watch())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(balancer.ready) < len(ports):  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)
        try:
            yield balancer
        finally:
            watching.cancel()


async def test_a_rolling_restart_under_load_loses_nothing(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Two gateways are replaced one after the other: no answer fails, none is cut short."""
    upstream.scripts["slow"] = SLOW
    seen: Counter[str] = Counter()
    stop = asyncio.Event()
    tables = settings(upstream, drain_seconds=3)
    ports = [free_port(), free_port()]

    async def start(stack: AsyncExitStack, number: int, life: int) -> Command:
        place = tmp_path / f"{number}-{life}"
        return await stack.enter_async_context(running_command(place, tables, port=ports[number]))

    async with AsyncExitStack() as stack:
        running = [await start(stack, number, 0) for number in (0, 1)]
        async with _balanced(ports) as balancer:
            clients = [asyncio.create_task(_load(balancer, f"{n}", seen, stop)) for n in range(8)]
            for number in (0, 1):
                before = seen.total()
                running[number].stop()
                assert await running[number].ended() == 0
                running[number] = await start(stack, number, 1)
                await _until(lambda: len(balancer.ready) == len(ports))
                assert seen.total() > before
            stop.set()
            await asyncio.gather(*clients)
    assert set(seen) == {"repeat", "new", "stream"}


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
