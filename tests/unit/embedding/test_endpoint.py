"""An OpenAI-compatible endpoint as an embedder, against servers that do not do as asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from stepwell.core.errors import ConfigError, EmbeddingError, EmbeddingTimeout
from stepwell.core.vectors import Unfit
from stepwell.embedding.endpoint import TEXTS_PER_CALL, Endpoint, EndpointEmbedder
from stepwell.embedding.endpoint_reply import read_reply

Make = Callable[[list[str]], Any]


def items(texts: list[str]) -> list[dict[str, Any]]:
    """The length of a text decides where its vector points."""
    return [
        {"object": "embedding", "index": index, "embedding": [3.0 * len(text), 4.0 * len(text)]}
        for index, text in enumerate(texts)
    ]


def good(texts: list[str]) -> Any:
    return {"object": "list", "data": items(texts), "usage": {"prompt_tokens": 1}}


class FakeServer:
    """Answers `make` of the texts, after whatever `before` does."""

    def __init__(self) -> None:
        self.make: Make = good
        self.status = 200
        self.location: str | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.base_url = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization"))
        await self.gate.wait()
        made = self.make(body["input"])
        headers = {} if self.location is None else {"location": self.location}
        text = made if isinstance(made, str) else json.dumps(made)
        return web.Response(text=text, status=self.status, headers=headers)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    application = web.Application()
    application.router.add_post("/v1/embeddings", fake.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.base_url = f"http://{host}:{port}/v1"
    yield fake
    fake.gate.set()
    await runner.cleanup()


def endpoint(server: FakeServer, **settings: Any) -> Endpoint:
    return Endpoint(server.base_url, "embed-1", dimensions=2, window_tokens=64, **settings)


@pytest.fixture
async def embedder(server: FakeServer) -> AsyncIterator[EndpointEmbedder]:
    client = EndpointEmbedder(endpoint(server, api_key="k-1"), budget_seconds=5)
    yield client
    await client.aclose()


async def test_vectors_arrive_and_are_made_of_unit_length(
    server: FakeServer, embedder: EndpointEmbedder
) -> None:
    got = await embedder.embed(["a", "", "b", "a", "x" * 1_000, "\ud800"])
    np.testing.assert_allclose(got.vectors[[0, 2, 3, 5]], [[0.6, 0.8]] * 4, rtol=1e-6)
    assert got.unfit == (None, Unfit.EMPTY, None, None, Unfit.OVER_WINDOW, None)
    assert server.bodies == [
        {"model": "embed-1", "input": ["a", "b", "\ufffd"], "encoding_format": "float"}
    ]
    assert server.keys == ["Bearer k-1"]


async def test_the_window_counts_bytes(embedder: EndpointEmbedder) -> None:
    """Two bytes a token: nothing that a server may cut is sent to it."""
    got = await embedder.embed(["x" * 128, "x" * 129, "长" * 42, "长" * 43])
    assert got.unfit == (None, Unfit.OVER_WINDOW, None, Unfit.OVER_WINDOW)


async def test_prefix_and_dimensions_are_sent(server: FakeServer) -> None:
    client = EndpointEmbedder(
        endpoint(server, prefix="query: ", asks_dimensions=True), budget_seconds=5
    )
    await client.embed(["a"])
    assert server.bodies[0]["input"] == ["query: a"]
    assert server.bodies[0]["dimensions"] == 2
    assert server.keys == [None]
    await client.aclose()


async def test_order_is_that_of_the_index(server: FakeServer, embedder: EndpointEmbedder) -> None:
    server.make = lambda texts: {
        "data": [
            {"index": 1, "embedding": [0, 1]},
            {"index": 0, "embedding": [1, 0]},
        ]
    }
    got = await embedder.embed(["a", "b"])
    np.testing.assert_array_equal(got.vectors, [[1, 0], [0, 1]])


async def test_many_texts_are_many_calls(server: FakeServer, embedder: EndpointEmbedder) -> None:
    await embedder.embed([f"text {number}" for number in range(TEXTS_PER_CALL + 1)])
    assert sorted(len(body["input"]) for body in server.bodies) == [1, TEXTS_PER_CALL]


async def test_identical_texts_are_asked_once(
    server: FakeServer, embedder: EndpointEmbedder
) -> None:
    server.gate.clear()
    asked = [asyncio.create_task(embedder.embed(["a"])) for _ in range(50)]
    await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*asked)
    await embedder.embed(["a"])
    assert len(server.bodies) == 1


HOSTILE: dict[str, Make] = {
    "no JSON": lambda texts: "<html>",
    "nothing": lambda texts: "",
    "no data": lambda texts: {},
    "too few": lambda texts: {"data": items(texts)[:1]},
    "too many": lambda texts: {"data": [*items(texts), *items(["c"])]},
    "one twice": lambda texts: {"data": [items(texts)[0]] * 2},
    "index beyond": lambda texts: {"data": [{**items(texts)[0], "index": 5}, items(texts)[1]]},
    "index a text": lambda texts: {"data": [{**items(texts)[0], "index": "0"}, items(texts)[1]]},
    "too wide": lambda texts: {"data": [{"index": n, "embedding": [1, 1, 1]} for n in (0, 1)]},
    "no width": lambda texts: {"data": [{"index": n, "embedding": []} for n in (0, 1)]},
    "not numbers": lambda texts: {"data": [{"index": n, "embedding": ["a", 1]} for n in (0, 1)]},
    "not a number": lambda texts: {"data": [{"index": n, "embedding": [None, 1]} for n in (0, 1)]},
    "zero": lambda texts: {"data": [{"index": n, "embedding": [0, 0]} for n in (0, 1)]},
    "huge": lambda texts: {"data": [{"index": n, "embedding": [1e300, 1]} for n in (0, 1)]},
    "base64": lambda texts: {"data": [{"index": n, "embedding": "AACAPw=="} for n in (0, 1)]},
    "deep": lambda texts: '{"data": [], "usage": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "endless": lambda texts: " " * 1_000_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_wrong_reply_is_an_error_and_not_remembered(
    server: FakeServer, embedder: EndpointEmbedder, kind: str
) -> None:
    server.make = HOSTILE[kind]
    with pytest.raises(EmbeddingError) as caught:
        await embedder.embed(["a", "b"])
    assert not isinstance(caught.value, EmbeddingTimeout)
    server.make = good
    await embedder.embed(["a", "b"])
    assert len(server.bodies) == 2, "no retry of its own"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_status(server: FakeServer, embedder: EndpointEmbedder, status: int) -> None:
    server.status = status
    with pytest.raises(EmbeddingError, match=str(status)):
        await embedder.embed(["a"])
    assert len(server.bodies) == 1


async def test_a_redirect_does_not_get_the_key(
    server: FakeServer, embedder: EndpointEmbedder
) -> None:
    server.status, server.location = 307, f"{server.base_url}/embeddings"
    with pytest.raises(EmbeddingError, match="307"):
        await embedder.embed(["a"])
    assert len(server.bodies) == 1


async def test_nobody_listens() -> None:
    client = EndpointEmbedder(
        Endpoint("http://127.0.0.1:9/v1", "m", dimensions=2, window_tokens=64), budget_seconds=5
    )
    with pytest.raises(EmbeddingError, match="no answer"):
        await client.embed(["a"])
    await client.aclose()


async def test_a_slow_server_costs_the_budget_and_its_answer_is_kept(server: FakeServer) -> None:
    client = EndpointEmbedder(endpoint(server), budget_seconds=0.02)
    server.gate.clear()
    with pytest.raises(EmbeddingTimeout):
        await client.embed(["a"])
    server.gate.set()
    while True:
        try:
            await client.embed(["a"])
        except EmbeddingTimeout:
            continue
        break
    assert len(server.bodies) == 1
    await client.aclose()


async def test_closing_ends_what_waits(server: FakeServer, embedder: EndpointEmbedder) -> None:
    server.gate.clear()
    asked = asyncio.create_task(embedder.embed(["a"]))
    await asyncio.sleep(0)
    await embedder.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await asked
    with pytest.raises(EmbeddingError, match="closed"):
        await embedder.embed(["b"])
    await embedder.aclose()


def test_all_that_decides_vectors_is_in_the_model_id() -> None:
    base = Endpoint("http://host/v1", "m", dimensions=2, window_tokens=64)
    others = [
        replace(base, base_url="http://other/v1"),
        replace(base, model="n"),
        replace(base, dimensions=3),
        replace(base, window_tokens=65),
        replace(base, asks_dimensions=True),
        replace(base, prefix="query: "),
        replace(base, revision="2"),
    ]
    assert len({base.model_id, *(other.model_id for other in others)}) == 1 + len(others)
    assert replace(base, api_key="secret").model_id == base.model_id
    assert "secret" not in repr(replace(base, api_key="secret"))


@pytest.mark.parametrize(
    "wrong", [{"base_url": "host:80"}, {"dimensions": 0}, {"window_tokens": 0}]
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    base = Endpoint("http://host/v1", "m", dimensions=2, window_tokens=64)
    with pytest.raises(ConfigError):
        EndpointEmbedder(replace(base, **wrong))


def test_a_reply_of_no_texts() -> None:
    assert read_reply(b'{"data":[]}', 0, 2) == []
