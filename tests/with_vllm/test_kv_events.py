"""KV events of a real vLLM."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.kv_blocks import make_tokens
from support.vllm_server import BLOCK_TOKENS, VllmServer, events_config
from zmq.asyncio import Context

from stepwell.core.kv_events import AllCleared, BlocksStored, Gap, KvEvent, Resync
from stepwell.engines.kv_event_stream import EventSource, KvEventStream

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


async def test_what_a_prompt_leaves_is_told(vllm_server: VllmServer, vllm_folder: Path) -> None:
    """Who comes late hears the run so far: blocks, their tokens and salt, and that all is gone."""
    prompt = [*range(1000, 1000 + 3 * BLOCK_TOKENS), 7]
    await asyncio.to_thread(vllm_server.reset)
    await asyncio.to_thread(vllm_server.complete, prompt, max_tokens=1, cache_salt="secret salt")
    await asyncio.to_thread(vllm_server.reset)
    # What a reset cleared is told with what the next step does.
    await asyncio.to_thread(vllm_server.complete, prompt[:40], max_tokens=1)
    config = events_config(vllm_folder)
    source = EventSource(str(config["endpoint"]), str(config["replay_endpoint"]))
    context = Context()
    try:
        async with asyncio.timeout(60.0), KvEventStream(context, source) as stream:
            events = aiter(stream)
            assert await anext(events) == Resync()
            stored = await _next_that(events, lambda event: _is_of(event, prompt))
            assert isinstance(stored, BlocksStored)
            assert (stored.parent, stored.block_tokens) == (None, BLOCK_TOKENS)
            assert stored.extra[0] == ("secret salt",)
            assert "secret" not in repr(stored)
            await _next_that(events, lambda event: event == AllCleared())
            # And what comes now, it hears as it happens.
            heard = asyncio.create_task(_next_that(events, lambda event: _is_of(event, prompt)))
            await asyncio.to_thread(vllm_server.complete, prompt, max_tokens=1)
            assert await heard == replace(stored, extra=())
            assert (stream.counts.garbage, stream.counts.unanswered) == (0, 0)
    finally:
        context.destroy(linger=0)


async def _next_that(
    events: AsyncIterator[KvEvent], is_wanted: Callable[[KvEvent], bool]
) -> KvEvent:
    while not is_wanted(event := await anext(events)):
        assert not isinstance(event, Gap)
    return event


def _is_of(event: KvEvent, prompt: list[int]) -> bool:
    tokens = make_tokens(*prompt[: 3 * BLOCK_TOKENS])
    return isinstance(event, BlocksStored) and event.tokens == tokens
