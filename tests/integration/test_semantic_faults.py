"""The semantic layer's own parts fail under a running gateway: hits are lost, answers are not."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gateway import Gateway, StartGateway, running_gateway
from support.metrics import reaches

from stepwell.embedding.recipes import E5
from stepwell.embedding.supervisor import EmbedderProcess
from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
ASKED = "What is the way to return shoes I bought online?"
NO_STORE = {"Cache-Control": "no-store"}


async def fill(gateway: Gateway) -> None:
    await gateway.ask(STORED)
    await gateway.settle()


async def is_hit(gateway: Gateway) -> bool:
    answer = await gateway.ask(ASKED, headers=NO_STORE)
    assert answer.status == 200
    return answer.cache_status.endswith("detail=semantic")


async def is_hit_soon(gateway: Gateway) -> bool:
    async with asyncio.timeout(60):
        while not await is_hit(gateway):  # noqa: ASYNC110  (nobody tells of it)
            await asyncio.sleep(0.2)
    return True


@pytest.fixture
def process(tmp_path: Path) -> Iterator[EmbedderProcess]:
    """An embedder of this test's own."""
    made = EmbedderProcess(E5, cache=tmp_path / "models", threads=1, report=lambda _: None)
    yield made
    made.stop()


async def test_the_embedder_is_killed(
    process: EmbedderProcess, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Every request is answered; it comes back by itself, and so do the hits."""
    address = process.start()
    assert await asyncio.to_thread(process.wait_until_serving, 120)
    settings = {"semantic": {"timeout_seconds": 10.0}}
    running = running_gateway(tmp_path / "data", upstream.base_url, settings, embedder=address)
    async with running as gateway:
        await fill(gateway)
        assert await is_hit(gateway)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        other = await gateway.ask("How do I wash wool by hand?")
        assert (other.status, other.headers["x-cache"]) == (200, "MISS")
        await reaches(gateway, "stepwell_failures_total", 1, component="semantic.embedder")
        assert await is_hit_soon(gateway)


async def test_the_embedder_never_comes(
    process: EmbedderProcess, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """A gateway serves from its first moment on; without an embedder it has the exact layer."""
    address = process.start()
    process.stop()
    async with running_gateway(
        tmp_path / "data", upstream.base_url, {}, embedder=address
    ) as gateway:
        await fill(gateway)
        assert not await is_hit(gateway)
        assert (await gateway.ask(STORED)).cache_status.endswith("detail=exact")


async def test_the_index_is_deleted_while_it_is_used(
    start_semantic: StartGateway, tmp_path: Path
) -> None:
    """What is in memory is found; what the next start lacks is embedded again."""
    async with start_semantic() as gateway:
        await fill(gateway)
    async with start_semantic() as gateway:
        assert await is_hit(gateway)
        shutil.rmtree(tmp_path / "data" / "semantic")
        await asyncio.sleep(1)
        assert await is_hit(gateway)
    shutil.rmtree(tmp_path / "data" / "semantic", ignore_errors=True)
    async with start_semantic() as gateway:
        assert await is_hit_soon(gateway)


@pytest.mark.parametrize("fault", ["truncate", "flip", "empty"])
async def test_the_index_is_damaged_between_two_starts(
    start_semantic: StartGateway, tmp_path: Path, fault: str
) -> None:
    """Noticed before it is used, and made again from the store."""
    async with start_semantic() as gateway:
        await fill(gateway)
    damaged = 0
    for path in (tmp_path / "data" / "semantic").rglob("*"):
        if not path.is_file() or not path.stat().st_size:
            continue
        content = bytearray(path.read_bytes())
        match fault:
            case "truncate":
                content = content[: len(content) // 2]
            case "flip":
                content[len(content) // 2] ^= 0xFF
            case "empty":
                content = bytearray()
        path.write_bytes(content)
        damaged += 1
    assert damaged
    async with start_semantic() as gateway:
        assert await is_hit_soon(gateway)
        other = await gateway.ask("How do I return a library book?", headers=NO_STORE)
        assert other.headers["x-cache"] == "MISS"
