"""Answers to other words with vectors from a server, which may fail in any way."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp.web
import numpy as np
import pytest
from support.gateway import Gateway, StartGateway
from support.metrics import reaches

from stepwell.testing.fake_upstream import FakeUpstream

DIMENSIONS = 64
STORED = "How do I return shoes that I bought online?"
ASKED = "What is the way to return shoes I bought online?"


def vector(text: str) -> list[float]:
    """Return a vector to which every word adds a direction of its own."""
    total = np.zeros(DIMENSIONS)
    for word in text.lower().strip("?").split():
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        total += np.random.default_rng(seed).standard_normal(DIMENSIONS)
    unit: list[float] = (total / np.linalg.norm(total)).tolist()
    return unit


@dataclass
class EmbeddingServer:
    """An OpenAI-compatible server that does as it is told."""

    url: str = ""
    how: str = "well"
    keys: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    """All that it was given, in order."""

    async def answer(self, request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
        self.keys.add(request.headers.get("authorization", ""))
        texts = json.loads(await request.read())["input"]
        self.texts += texts
        vectors: list[Any] = [vector(text) for text in texts]
        match self.how:
            case "hang":
                await asyncio.sleep(30)
            case "fail":
                return aiohttp.web.Response(status=500, text="no")
            case "nan":
                vectors = [[float("nan")] * DIMENSIONS for _ in texts]
            case "narrow":
                vectors = [one[:5] for one in vectors]
            case "short":
                vectors = vectors[:-1]
        data = [
            {"object": "embedding", "index": index, "embedding": one}
            for index, one in enumerate(vectors)
        ]
        return aiohttp.web.Response(
            text=json.dumps({"object": "list", "data": data, "model": "e"}),
            content_type="application/json",
        )


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    made = EmbeddingServer()
    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(made.answer))
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}/v1"
    yield made
    await runner.cleanup()


def settings(server: EmbeddingServer, timeout_seconds: float = 5.0) -> dict[str, Any]:
    return {
        "semantic": {
            "embedder": "endpoint",
            "endpoint": {
                "base_url": server.url,
                "model": "e",
                "dimensions": DIMENSIONS,
                "api_key_env": "EMBEDDINGS_KEY",
            },
            "timeout_seconds": timeout_seconds,
            "levels": {"strict": 0.9, "general": 0.4, "faq": 0.4},
        }
    }


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDINGS_KEY", "sk-embeddings")


async def fill(gateway: Gateway, text: str = STORED) -> None:
    await gateway.ask(text)
    await gateway.settle()
    await asyncio.sleep(0.5)


async def is_semantic_hit(gateway: Gateway) -> bool:
    answer = await gateway.ask(ASKED, headers={"Cache-Control": "no-store"})
    return answer.cache_status.endswith("detail=semantic")


async def test_a_server_gives_the_vectors(
    start_gateway: StartGateway, server: EmbeddingServer, upstream: FakeUpstream
) -> None:
    """With its own key, never the caller's."""
    async with start_gateway(**settings(server)) as gateway:
        await fill(gateway)
        answer = await gateway.ask(ASKED)
        assert answer.cache_status.endswith("detail=semantic")
        assert server.keys == {"Bearer sk-embeddings"}
        assert upstream.call_count == 1


@pytest.mark.parametrize("how", ["fail", "nan", "narrow", "short", "hang"])
async def test_a_server_that_fails_costs_hits_only(
    start_gateway: StartGateway, server: EmbeddingServer, how: str
) -> None:
    """Every request is answered, within the budget; the failure is counted, and ends."""
    async with start_gateway(**settings(server, 0.3)) as gateway:
        await fill(gateway)
        server.how = how
        started = time.monotonic()
        answer = await gateway.ask(ASKED, headers={"Cache-Control": "no-store"})
        took = time.monotonic() - started
        assert (answer.status, answer.headers["x-cache"]) == (200, "MISS")
        assert took < 5
        await reaches(gateway, "stepwell_failures_total", 1, component="semantic.embedder")
        server.how = "well"
        async with asyncio.timeout(20):
            while not await is_semantic_hit(gateway):  # noqa: ASYNC110  (nobody tells of it)
                await asyncio.sleep(0.2)


@pytest.mark.parametrize("cache", [True, False])
async def test_questions_outlive_a_gateway_where_vectors_are_kept(
    start_gateway: StartGateway, server: EmbeddingServer, *, cache: bool
) -> None:
    """The next one finds them, and asks the server nothing."""
    tables = settings(server)
    tables["semantic"]["endpoint"]["cache"] = cache
    for _ in range(2):
        async with start_gateway(**tables) as gateway:
            await gateway.ask(ASKED, headers={"Cache-Control": "no-store"})
    assert server.texts.count(ASKED) == (1 if cache else 2)
