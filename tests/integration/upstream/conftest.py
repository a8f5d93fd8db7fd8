"""All tests of this directory are about `HttpUpstream`: over each transport, on each event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import uvloop
from support.upstreams import Events, MakeUpstream

from stepwell.engines.aiohttp_transport import AiohttpTransport
from stepwell.engines.direct_transport import DirectTransport
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on both loops."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture(params=[DirectTransport, AiohttpTransport], ids=["direct", "aiohttp"])
async def make_upstream(
    request: pytest.FixtureRequest, events: Events
) -> AsyncIterator[MakeUpstream]:
    """Make clients over one of the transports; they are closed after the test."""
    made: list[HttpUpstream] = []

    def make(base_url: str, **settings: Any) -> HttpUpstream:
        chosen = {"identity": "test", "events": events, "open_transport": request.param}
        upstream = HttpUpstream("main", base_url, **{**chosen, **settings})
        made.append(upstream)
        return upstream

    yield make
    for upstream in made:
        await upstream.aclose()


@pytest.fixture
async def server() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as running:
        yield running


@pytest.fixture
def upstream(server: FakeUpstream, make_upstream: MakeUpstream) -> HttpUpstream:
    """A client of ``server``."""
    return make_upstream(server.base_url)
