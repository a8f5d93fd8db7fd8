"""Prompts that an operator wants held: public ones, and those that may not be evicted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from integration.torch_engine.conftest import MakeParts

from stepwell.assembly.torch_parts import TorchParts

CHAT = "/v1/chat/completions"
SYSTEM = {"role": "system", "content": "You are kind. " * 30}


@asynccontextmanager
async def client_of(parts: TorchParts) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(parts.app.asgi)
    key = {"authorization": "Bearer key"}
    async with httpx.AsyncClient(transport=transport, base_url="http://e", headers=key) as opened:
        yield opened


def held(**members: Any) -> dict[str, Any]:
    messages = [SYSTEM, {"role": "user", "content": "Hello"}]
    return {"model": "tiny", "messages": messages, "ttl_seconds": 600, **members}


async def cached(client: httpx.AsyncClient, text: str, system: Any = SYSTEM, **members: Any) -> int:
    """Ask, and return how many tokens were cached."""
    messages = [system, {"role": "user", "content": text}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 2, **members}
    reply = await client.post(CHAT, json=body)
    assert reply.status_code == 200
    return int(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_a_public_prompt_is_everybodys_and_nothing_else_is(make_parts: MakeParts) -> None:
    async with client_of(make_parts()) as client:
        assert (await client.post("/hold", json=held())).status_code == 200
        head = await cached(client, "I am Alice. My code is 4711.", cache_salt="alice")
        assert head > 50
        # Bob meets the public head, and not a block of what Alice said behind it.
        assert await cached(client, "I am Alice. My code is 4711.", cache_salt="bob") == head
        assert await cached(client, "I am Alice. My code is 4711.", cache_salt="alice") > head


async def test_one_of_a_tenant_is_its_own(make_parts: MakeParts) -> None:
    async with client_of(make_parts()) as client:
        await client.post("/hold", json=held(cache_salt="alice"))
        assert await cached(client, "One?", cache_salt="alice") > 50
        assert await cached(client, "One?", cache_salt="bob") == 0


@pytest.mark.parametrize("ttl_seconds", [600, 0])
async def test_what_is_pinned_stays_whatever_else_comes(
    make_parts: MakeParts, ttl_seconds: float
) -> None:
    parts = make_parts(memory_bytes=1 << 18)
    async with client_of(parts) as client:
        await client.post("/hold", json=held(ttl_seconds=ttl_seconds))
        for number in range(40):
            other = {"role": "system", "content": f"{number} is another prompt. " * 12}
            for _ in range(2):
                await cached(client, "Hm?", system=other)
        figures = parts.cache.figures()
        assert figures.pins == bool(ttl_seconds)
        assert sum(one.evicted_blocks.get("capacity", 0) for one in figures.shelves) > 0
        assert (await cached(client, "Still there?", cache_salt="x") > 50) == bool(ttl_seconds)


@pytest.mark.parametrize(
    ("members", "status", "named"),
    [
        ({"ttl_seconds": -1}, 400, "ttl_seconds"),
        ({"ttl_seconds": "long"}, 400, "ttl_seconds"),
        ({"messages": []}, 400, "messages"),
        ({"model": "another"}, 404, "model"),
        ({"messages": [{"role": "user", "content": "word " * 9_000}]}, 400, "tokens"),
    ],
)
async def test_what_cannot_be_held(
    make_parts: MakeParts, members: dict[str, Any], status: int, named: str
) -> None:
    async with client_of(make_parts()) as client:
        reply = await client.post("/hold", json=held(**members))
        assert reply.status_code == status
        assert named in reply.text


async def test_only_the_engines_own_key_may_hold(make_parts: MakeParts) -> None:
    async with client_of(make_parts()) as client:
        reply = await client.post("/hold", json=held(), headers={"authorization": "Bearer sk-a"})
        assert reply.status_code == 401
