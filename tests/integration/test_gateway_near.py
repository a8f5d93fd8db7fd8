"""A like question whose answer may not be given still says where to go."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from support.gateway import running_gateway

from stepwell.embedding.supervisor import EmbedderAddress
from stepwell.testing.fake_prefixes import FakePrefixCache
from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
OPPOSITE = "How do I return shoes that I did not buy online?"


async def test_it_chooses_the_replica(tmp_path: Path, embedder: EmbedderAddress) -> None:
    """Refused as an answer, and used as a hint: the trail says so, and what it added in tokens."""
    async with contextlib.AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(FakeUpstream(prefixes=FakePrefixCache()))
            for _ in range(3)
        ]
        urls = [replica.base_url for replica in replicas]
        settings: dict[str, Any] = {
            "upstreams": {"llm": {"replicas": urls}},
            "semantic": {"timeout_seconds": 10.0},
        }
        gateway = await stack.enter_async_context(
            running_gateway(tmp_path / "data", "", settings, embedder=embedder)
        )
        await gateway.ask(STORED)
        first = [replica.call_count for replica in replicas].index(1)
        await asyncio.sleep(1.0)  # Behind the answer its words are learned.
        answer = await gateway.ask(OPPOSITE)
        assert answer.headers["x-cache"] == "MISS"
        assert replicas[first].call_count == 2
        page = (await gateway.get("/metrics")).body.decode()
        assert 'why="near"' in page
