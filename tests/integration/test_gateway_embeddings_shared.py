"""Two gateways that share Redis and PostgreSQL: a text is embedded once, whoever is away."""

import asyncio
import json
import random
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway import Answer, Gateway, running_gateway
from support.metrics import total
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers

from stepwell.testing.fake_embeddings import vector_of
from stepwell.testing.fake_upstream import FakeUpstream, Script, VectorFault

PATH = "/v1/embeddings"

Start = Callable[[str], AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 64mb", "maxmemory-policy allkeys-lru")


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def start(
    redis: RedisServer, postgres: PostgresServer, upstream: FakeUpstream, tmp_path: Path
) -> Start:
    """Start gateways, each with a data directory of its own."""
    tables: dict[str, Any] = {
        "stores": {"redis": {"url": redis.url}, "postgres": {"url": postgres.url}},
        "semantic": {"embedder": "off"},
        "embedding": {"canary_seconds": 0, "memory_bytes": 0},
    }

    @asynccontextmanager
    async def start(name: str) -> AsyncIterator[Gateway]:
        async with running_gateway(tmp_path / name, upstream.base_url, tables) as gateway:
            yield gateway

    return start


async def embed(gateway: Gateway, texts: list[str]) -> Answer:
    answer = await gateway.post({"model": "fake", "input": texts}, path=PATH)
    assert answer.status == 200, answer.body
    return answer


def wrong(answer: Answer, texts: list[str]) -> int:
    """Return how many vectors are not those of their texts, to the bit."""
    items = json.loads(answer.body)["data"]
    assert len(items) == len(texts)
    return sum(
        struct.pack("<8f", *item["embedding"]) != struct.pack("<8f", *vector_of(text))
        for item, text in zip(items, texts, strict=True)
    )


async def written(gateway: Gateway) -> None:
    async with asyncio.timeout(30):
        while await total(gateway, "stepwell_embedding_pending_writes"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_text_is_embedded_once_among_gateways(start: Start, upstream: FakeUpstream) -> None:
    """Overlapping batches with equal texts, of servers in any order, at the same time."""
    upstream.scripts["fake"] = Script(vector_fault=VectorFault.PERMUTED, head_delay_seconds=0.02)
    dice = random.Random(7)
    known = [f"text number {number}" for number in range(300)]
    async with start("one") as one, start("two") as two:
        batches = [dice.choices(known, k=dice.randint(1, 40)) for _ in range(60)]
        answers = await asyncio.gather(
            *[embed((one, two)[at % 2], batch) for at, batch in enumerate(batches)]
        )
        assert sum(wrong(a, b) for a, b in zip(answers, batches, strict=True)) == 0
        sent = [text for call in upstream.calls for text in _sent(call.json())]
        assert len(sent) == len(set(sent)) == len({text for batch in batches for text in batch})
        sources = {
            source: await total(one, "stepwell_embedding_texts_total", source=source)
            + await total(two, "stepwell_embedding_texts_total", source=source)
            for source in ("origin", "shared")
        }
        assert sources["origin"] == len(sent)
        assert sources["shared"] > 0


def _sent(body: dict[str, Any]) -> list[str]:
    given = body["input"]
    return [given] if isinstance(given, str) else given


async def test_whoever_is_away_costs_nobody_an_answer(
    start: Start, upstream: FakeUpstream, redis: RedisServer, postgres: PostgresServer
) -> None:
    """Known texts come from the rest; new ones from the model server; nothing is wrong."""
    texts = [f"known before: {number}" for number in range(64)]
    async with start("one") as one, start("two") as two:
        await embed(one, texts)
        await written(one)
        calls = upstream.call_count
        assert (await embed(two, texts)).headers["x-cache"] == "HIT"

        redis.pause()
        async with asyncio.timeout(30):
            while "embeddings.redis" not in (await two.get("/readyz")).body.decode():
                answer = await embed(two, texts)
                assert (wrong(answer, texts), answer.headers["x-cache"]) == (0, "HIT")
        redis.resume()

        postgres.kill()
        new = ["new while PostgreSQL is away", *texts[:8]]
        assert wrong(await embed(one, new), new) == 0
        postgres.start()
        async with asyncio.timeout(60):
            while await total(one, "stepwell_embedding_pending_writes"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert upstream.call_count == calls + 1
    async with start("three") as three:
        assert wrong(await embed(three, [*new, *texts]), [*new, *texts]) == 0
    assert upstream.call_count == calls + 1
