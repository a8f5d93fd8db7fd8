"""Python blocks marked ``run`` do what their comments say, on a real gateway."""

import asyncio
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from meta.repository import Fence, fences
from support.gateway import running_gateway

from stepwell.client.portal import Portal
from stepwell.testing.fake_upstream import FakeUpstream

GATEWAY, UPSTREAM = "http://127.0.0.1:8080/v1", "http://127.0.0.1:8000/v1"
"""Addresses on the pages; here they stand for a gateway and the model server behind it."""

_TOLD = re.compile(r"print\(.*\)  # (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a gateway and a model server on an event loop of their own."""
    portal = Portal()
    started = portal.call(_start(tmp_path_factory.mktemp("gateway") / "data"))
    try:
        yield started[0]
    finally:
        portal.call(started[1].aclose())
        portal.close()


async def _start(data_dir: Path) -> tuple[dict[str, str], contextlib.AsyncExitStack]:
    stack = contextlib.AsyncExitStack()
    upstream = await stack.enter_async_context(FakeUpstream())
    gateway = await stack.enter_async_context(running_gateway(data_dir, upstream.base_url))
    return {GATEWAY: f"{gateway.origin}/v1", UPSTREAM: upstream.base_url}, stack


@pytest.mark.parametrize(
    "fence", [fence for fence in fences("python") if fence.runs], ids=lambda fence: fence.name
)
def test_example_prints_what_it_says(fence: Fence, addresses: dict[str, str]) -> None:
    """What is printed is what stands in the comments behind the prints, in their order."""
    text = fence.text
    for written, real in addresses.items():
        text = text.replace(written, real)
    printed = io.StringIO()
    scope: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        exec(compile(text, fence.name, "exec"), scope)
    _close(scope)
    told = _TOLD.findall(fence.text)
    assert ", ".join(printed.getvalue().splitlines()) == ", ".join(told)


def _close(scope: dict[str, Any]) -> None:
    """Close what a page, being short, leaves open."""
    for value in scope.values():
        closing = getattr(value, "close", None)
        if type(value).__module__.startswith("openai") and closing is not None:
            closed = closing()
            if asyncio.iscoroutine(closed):
                asyncio.run(closed)
