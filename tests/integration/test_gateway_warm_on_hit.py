"""Hits that have the model server read what it was spared, also those that are not parsed anew."""

import asyncio
from typing import Any

import pytest
from support.gateway import StartGateway
from support.metrics import reaches
from support.time import stop_time

from stepwell.pipeline.warming import IDLE_SECONDS
from stepwell.testing.fake_upstream import FakeUpstream

LONG = "What is warm? " * 100


async def test_a_repeat_to_the_byte(
    start_gateway: StartGateway, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is answered at once; when the server has probably forgotten it, one has it read."""
    clock = stop_time(monkeypatch)
    table: dict[str, Any] = {"base_url": upstream.base_url, "prefix": {"warm_on_hit": True}}
    async with start_gateway(upstreams={"fake": table}) as gateway:
        assert (await gateway.ask(LONG)).headers["x-cache"] == "MISS"
        for calls in (1, 2, 3):
            for _ in range(3):
                assert (await gateway.ask(LONG)).headers["x-cache"] == "HIT"
                async with asyncio.timeout(10):
                    while upstream.call_count < calls:  # noqa: ASYNC110  (nobody tells)
                        await asyncio.sleep(0.02)
            await reaches(gateway, "stepwell_warmed_tokens_total", calls - 1)
            await asyncio.sleep(3 * IDLE_SECONDS)
            assert upstream.call_count == calls
            clock.seconds += 60
