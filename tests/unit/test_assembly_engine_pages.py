"""What engines that run here say of themselves, and how the gateway tells it on."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp.web
import pytest

from stepwell.assembly import engine_pages
from stepwell.assembly.engine_pages import EnginePages, EngineWatch
from stepwell.assembly.house import Plan
from stepwell.assembly.settings import parse_settings
from stepwell.core.events import Degraded, Event
from stepwell.engines.served_process import EngineAddress

FULL = "OSError: No space left on device"


@pytest.fixture
async def troubles() -> AsyncIterator[tuple[str, asyncio.Queue[str]]]:
    """Run an engine's routes; yield where, and what it is to say."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: aiohttp.web.BaseRequest) -> aiohttp.web.Response:
        assert (request.method, request.path) == ("POST", "/trouble")
        assert request.headers["authorization"] == "Bearer key"
        if queue.empty():
            return aiohttp.web.Response()
        said = queue.get_nowait()
        return aiohttp.web.Response(text=said, status=200 if said == FULL else 500)

    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(answer))
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", queue
    await runner.cleanup()


class Events:
    """Notes down what is told."""

    def __init__(self) -> None:
        self.told: list[Event] = []

    def emit(self, event: Event) -> None:
        self.told.append(event)


async def test_each_trouble_is_told_once(
    troubles: tuple[str, asyncio.Queue[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of engines that say something; one that is away, or fails to say it, is asked again."""
    monkeypatch.setattr(engine_pages, "LOOK_SECONDS", 0.01)
    url, said = troubles
    tables = {name: {"kind": "torch"} for name in ("own", "gone")}
    engines = {
        "own": EngineAddress(url, "key", "m", "i"),
        "gone": EngineAddress("http://127.0.0.1:9/v1", "key", "m", "i"),
    }
    plan = Plan(parse_settings({"upstreams": tables}), None, bytes(32), engines)
    events, pages = Events(), EnginePages(plan)
    watch = EngineWatch(pages, events)
    try:
        async with asyncio.timeout(10):
            for trouble in (FULL, "fault", FULL):
                said.put_nowait(trouble)
            while len(events.told) < 2:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)
        assert said.empty()
        assert events.told == [Degraded("kv.own", FULL)] * 2
    finally:
        await watch.aclose()
        await pages.aclose()
