"""A gateway in front of a real vLLM that tells its KV events."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

from support.gateway import Gateway, running_gateway
from support.vllm_server import BLOCK_TOKENS, MODEL, VllmServer, events_config

WORDS = (
    "the cow field river stone bread green seven walks under morning table light paper house small"
    " glass road night along every winter door letter because people market"
).split()
"""Each a token, with the space before it."""

UPSTREAM = "llm"

_PATIENCE_SECONDS = 30.0


def some_words(seed: int, count: int) -> str:
    """Return a text of about as many tokens that no other seed begins with."""
    drawn = Random(seed)
    return " ".join(drawn.choice(WORDS) for _ in range(count))


def whole_blocks(tokens: int) -> int:
    """Return how many of a prompt's tokens stand in whole blocks."""
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until an awaitable condition holds."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await is_so():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Sums:
    """What ``GET /admin/replicas`` has of a replica, over all its requests so far."""

    requests: int
    prompt_tokens: int
    foretold_tokens: int
    cached_tokens: int
    met_tokens: int


@dataclass(frozen=True)
class Asked:
    """One answer, what was foretold of its prompt, and what the server reports."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    foretold_tokens: int
    cached_tokens: int


@dataclass
class Front:
    """The gateway, and the server behind it."""

    gateway: Gateway
    server: VllmServer

    async def report(self) -> dict[str, Any]:
        """Return what the gateway believes of its only replica."""
        said = await self.gateway.get("/admin/replicas")
        (report,) = json.loads(said.body)["replicas"]
        return dict(report)

    async def sums(self) -> Sums:
        """Return the sums of all requests so far."""
        agreed = (await self.report())["agreed"]
        return Sums(**{one.name: agreed[one.name] for one in fields(Sums)})

    async def holds(self, tokens: int) -> None:
        """Wait until so many tokens are believed to be held: events come behind answers."""

        async def so_many() -> bool:
            held: int = (await self.report())["held_tokens"]
            return held == tokens

        await until(so_many)

    async def post(self, body: dict[str, Any], key: str = "sk-alice") -> Asked:
        """Ask; nobody else may at the same time."""
        before = await self.sums()
        answer = await self.gateway.post(body, key=key)
        assert answer.status == 200, answer.body
        assert answer.headers["x-cache"] == "MISS"

        async def is_counted() -> bool:
            return (await self.sums()).requests > before.requests

        await until(is_counted)
        after = await self.sums()
        said = json.loads(answer.body)
        usage = said["usage"]
        assert usage["prompt_tokens"] == after.prompt_tokens - before.prompt_tokens
        return Asked(
            said["choices"][0]["message"]["content"],
            usage["prompt_tokens"],
            usage["completion_tokens"],
            after.foretold_tokens - before.foretold_tokens,
            after.cached_tokens - before.cached_tokens,
        )

    async def ask(self, system: str, question: str, key: str = "sk-alice", **more: Any) -> Asked:
        """Ask one question under a system prompt."""
        return await self.post(chat(system, question, **more), key)


def chat(system: str, *turns: str, **more: Any) -> dict[str, Any]:
    """Return a request: the user's and the model's turns, greedily answered in a few tokens."""
    said = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(turns)
    ]
    messages = [{"role": "system", "content": system}, *said]
    fixed = {"model": MODEL, "temperature": 0, "max_tokens": 8, "ignore_eos": True}
    return {**fixed, "messages": messages, **more}


async def forgets(server: VllmServer) -> None:
    """Have the server forget all prefixes, and tell so.

    What a reset clears is told with what the next step does: a prompt of one block.
    """
    await asyncio.to_thread(server.reset)
    await asyncio.to_thread(server.complete, [9] * BLOCK_TOKENS, max_tokens=1)


@contextlib.asynccontextmanager
async def vllm_gateway(
    data_dir: Path, server: VllmServer, events: Path, log: str = "off", **prefix: Any
) -> AsyncIterator[Front]:
    """Run a gateway; ``prefix`` is added to its upstream's table of that name."""
    told = events_config(events)
    table = {
        "base_url": server.base_url,
        "engine": "vllm",
        "dialect": "engine",
        "prefix": {
            "block_tokens": BLOCK_TOKENS,
            # The CPU that answers is the one that computes.
            "token_timeout_seconds": 10.0,
            "kv_events": [told["endpoint"]],
            "kv_replays": [told["replay_endpoint"]],
            **prefix,
        },
    }
    tables = {"upstreams": {UPSTREAM: table}, "log": {"target": log}}
    async with running_gateway(data_dir, "", tables) as gateway:
        yield Front(gateway, server)
