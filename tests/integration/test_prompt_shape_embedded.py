"""Rewrites of prompts, measured where they matter: in a real engine's prefix cache."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import prompt_logs as logs

from stepwell.core.events import Event
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call
from stepwell.engines.embedded import EmbeddedEngine, EngineBounds
from stepwell.engines.http import HttpUpstream
from stepwell.engines.served_process import EngineAddress
from stepwell.engines.weights import WEIGHTS_PACKAGE
from stepwell.policy.prompt_shape.reshaping import Rewrite, reshape

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec(WEIGHTS_PACKAGE)),
        reason="the embedded engine or its weights are not installed (scripts/setup)",
    ),
]


class NoEvents:
    def emit(self, event: Event) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[EngineAddress]:
    engine = EmbeddedEngine(
        data_dir=tmp_path, report=lambda line: None, bounds=EngineBounds(slots=1)
    )
    yield engine.start()
    engine.stop()


async def cached(address: EngineAddress, bodies: list[dict[str, Any]]) -> tuple[int, int]:
    """Ask one after the other; return cached and all prompt tokens of the last one."""
    upstream = HttpUpstream(
        "embedded",
        address.base_url,
        identity=address.identity,
        api_key=address.api_key,
        events=NoEvents(),
    )
    try:
        for body in bodies:
            asked = {**body, "model": address.model, "max_tokens": 1, "temperature": 0}
            reply = await upstream.send(Call(Endpoint.CHAT, json.dumps(asked).encode(), ()))
            answer = json.loads(b"".join([chunk async for chunk in reply.chunks()]))
            await reply.aclose()
        usage = answer["usage"]
    finally:
        await upstream.aclose()
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


async def test_a_rewrite_raises_what_the_engine_reuses(address: EngineAddress) -> None:
    """With the time at its head nearly nothing of a prompt is reused, behind it nearly all."""
    plain = [logs.timestamps(number) for number in (1, 2)]
    shaped = [reshape(Endpoint.CHAT, body, (Rewrite.TIMESTAMPS,)).body for body in plain]
    before, tokens = await cached(address, plain)
    after, tokens_after = await cached(address, shaped)
    assert before < 0.2 * tokens
    assert after > 0.7 * tokens_after
