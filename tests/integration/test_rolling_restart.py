"""Gateways that are replaced while they are used: no client notices."""

import asyncio
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from support.command import Command, running_command
from support.deployment import DEPLOY
from support.gateway import question
from support.redis_servers import PATIENCE_SECONDS, RedisServer, free_port, redis_servers

from stepwell.testing.fake_upstream import FakeUpstream, Script

CLIENTS = 8

LOOKS_EVERY_SECONDS = 1.0
"""HAProxy, as `deploy/compose/haproxy.cfg` says."""


@dataclass
class Balancer:
    """Sends each request to a gateway that was ready when it last looked; tries none twice."""

    ports: list[int]
    http: aiohttp.ClientSession
    other: str | None
    """Who chooses instead; this one only looks."""
    ready: list[str] = field(default_factory=list)
    turn: int = 0

    async def watch(self) -> None:
        """Look at the gateways, again and again."""
        origins = [f"http://127.0.0.1:{port}" for port in self.ports]
        while True:
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
        """Return an answer; raises if there is none, or not all of it."""
        self.turn += 1
        origin = self.other or self.ready[self.turn % len(self.ready)]
        async with self.http.post(
            f"{origin}/v1/chat/completions",
            json=question(text, **fields),
            headers={"authorization": "Bearer key"},
        ) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.read()


@asynccontextmanager
async def balanced(ports: list[int], other: str | None) -> AsyncIterator[Balancer]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        balancer = Balancer(ports, http, other)
        watching = asyncio.create_task(balancer.watch())
        try:
            await until(lambda: len(balancer.ready) == len(ports))
            await until(lambda: other is None or listens(other))
            yield balancer
        finally:
            watching.cancel()


@contextmanager
def haproxy(ports: list[int], directory: Path) -> Iterator[str]:
    """Run HAProxy as ``deploy/`` has it, but for addresses; yield its own."""
    text, here = (DEPLOY / "compose" / "haproxy.cfg").read_text(), free_port()
    changes = {
        "bind :8080": f"bind 127.0.0.1:{here}",
        " resolvers docker init-addr libc,none": "",
        **{f"gateway-{n}:8080": f"127.0.0.1:{port}" for n, port in enumerate(ports, 1)},
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file = directory / "haproxy.cfg"
    file.write_text(text)
    silent = subprocess.DEVNULL
    process = subprocess.Popen(["haproxy", "-db", "-f", file], stdout=silent, stderr=silent)
    try:
        yield f"http://127.0.0.1:{here}"
    finally:
        process.terminate()
        process.wait()


async def load(balancer: Balancer, name: str, seen: Counter[str], stop: asyncio.Event) -> None:
    """Ask for repeats, what is new, slow streams, and such as others follow, by turns."""
    number = 0
    while not stop.is_set():
        number += 1
        text = f"{name} asks {number}"
        for kind, body in (
            ("repeat", await balancer.ask("What is a cow?")),
            ("new", await balancer.ask(text)),
            ("stream", await balancer.ask(text, model="slow", stream=True)),
            ("shared", await balancer.ask(f"all ask {number}", model="slow", stream=True)),
        ):
            streamed = kind in {"stream", "shared"}
            whole = body.endswith(b"[DONE]\n\n") if streamed else b"echo: " in body
            seen[kind if whole else "truncated"] += 1


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)


def listens(origin: str) -> bool:
    where = urlsplit(origin)
    with socket.socket() as sock:
        return sock.connect_ex((where.hostname, where.port)) == 0


needs_haproxy = pytest.mark.skipif(
    not shutil.which("haproxy"), reason="haproxy is not installed (apt-get install haproxy)"
)


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 64mb", "maxmemory-policy volatile-lru")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["a client", pytest.param("HAProxy", marks=needs_haproxy)])
async def test_a_rolling_restart_under_load_loses_nothing(
    upstream: FakeUpstream, redis: RedisServer, tmp_path: Path, by: str
) -> None:
    """Two that share a Redis are replaced one after the other: no answer fails or is cut short."""
    upstream.scripts["slow"] = Script(event_delay_seconds=0.05)
    seen: Counter[str] = Counter()
    stop, ports = asyncio.Event(), [free_port(), free_port()]
    tables = {
        "upstreams": {"fake": {"base_url": upstream.base_url}},
        "semantic": {"embedder": "off"},
        "server": {"drain_seconds": 5},
        "stores": {"redis": {"url": redis.url}},
    }

    async def start(stack: AsyncExitStack, number: int, life: int) -> Command:
        place = tmp_path / f"{number}-{life}"
        return await stack.enter_async_context(running_command(place, tables, port=ports[number]))

    async with AsyncExitStack() as stack:
        running = [await start(stack, number, 0) for number in (0, 1)]
        chooser = haproxy(ports, tmp_path) if by == "HAProxy" else nullcontext()
        balancer = await stack.enter_async_context(balanced(ports, stack.enter_context(chooser)))
        clients = [
            asyncio.create_task(load(balancer, f"{number}", seen, stop))
            for number in range(CLIENTS)
        ]
        for number in (0, 1):
            before = seen.total()
            running[number].stop()
            assert await running[number].ended() == 0
            running[number] = await start(stack, number, 1)
            await until(lambda: len(balancer.ready) == len(ports))
            # The one who chooses must have seen it, too, before the next one leaves.
            await asyncio.sleep(0 if balancer.other is None else 2 * LOOKS_EVERY_SECONDS)
            assert seen.total() > before
        stop.set()
        await asyncio.gather(*clients)
    assert set(seen) == {"repeat", "new", "stream", "shared"}
