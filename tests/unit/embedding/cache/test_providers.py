"""Servers and functions as providers, asked for real."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from support.embedding_provider import KIND, Heard, model, no_pause

from stepwell.core.errors import ConfigError
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import BadReply, Input, NoAnswer, Refused
from stepwell.embedding.endpoint_provider import EmbeddingServer, EndpointProvider, retry_after
from stepwell.embedding.function_provider import FunctionProvider


def answer(inputs: list[Any]) -> Any:
    """Answer out of order, as a server may."""
    data = [
        {"object": "embedding", "index": place, "embedding": [float(x) for x in vector_of(given)]}
        for place, given in enumerate(inputs)
    ]
    return {"object": "list", "data": data[::-1], "usage": {"prompt_tokens": 7}}


def vector_of(given: Any) -> Any:
    return model(tuple(given) if isinstance(given, list) else given)


class FakeServer:
    """Answers `answer` of the inputs, or what the test says."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.replies: list[Callable[[], web.StreamResponse]] = []
        self.base_url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization"))
        if self.replies:
            return self.replies.pop(0)()
        return web.json_response(answer(body["input"]))


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    application = web.Application(client_max_size=1 << 24)
    application.router.add_post("/v1/embeddings", fake.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.base_url = f"http://{host}:{port}/v1"
    yield fake
    await runner.cleanup()


@pytest.fixture
async def provider(server: FakeServer) -> AsyncIterator[EndpointProvider]:
    asked = EmbeddingServer(server.base_url, "embed-1", api_key="k-1", dimensions=8)
    provider = EndpointProvider(asked, Limits(max_retries=1))
    provider.pace = Pace(Limits(max_retries=1), pause=no_pause)
    yield provider
    await provider.aclose()


def reply_of(status: int, body: str, **headers: str) -> Callable[[], web.StreamResponse]:
    return lambda: web.Response(status=status, text=body, headers=headers)


async def test_server_is_asked_as_openai_says(
    server: FakeServer, provider: EndpointProvider
) -> None:
    cache = EmbeddingCache(Heard())
    inputs: list[Input] = ["a", "天气", ""]
    batch = await cache.get_many(KIND, inputs, provider)
    assert np.array_equal(batch.vectors(), np.stack([model(text) for text in inputs]))
    assert batch.tokens == 7
    (body,) = server.bodies
    assert body == {
        "model": "embed-1",
        "input": inputs,
        "encoding_format": "float",
        "dimensions": 8,
    }
    assert server.keys == ["Bearer k-1"]
    await cache.get_many(KIND, [(1, 2)], provider)
    assert server.bodies[1]["input"] == [[1, 2]]


async def test_refusal_is_handed_on_as_it_is(
    server: FakeServer, provider: EndpointProvider
) -> None:
    body = json.dumps({"error": {"message": "too long"}})
    server.replies = [reply_of(400, body, **{"content-type": "application/json"})]
    with pytest.raises(Refused, match=r"400: .*too long") as refused:
        await EmbeddingCache(Heard()).get_many(KIND, ["a"], provider)
    assert (refused.value.status, refused.value.body) == (400, body.encode())
    assert refused.value.headers["content-type"].startswith("application/json")


async def test_busy_server_is_asked_again(server: FakeServer, provider: EndpointProvider) -> None:
    server.replies = [reply_of(429, "busy", **{"retry-after": "0"})]
    await EmbeddingCache(Heard()).get_many(KIND, ["a"], provider)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"data": 1}', '{"data": [{"index": 0, "embedding": [[1.0]]}]}']
)
async def test_odd_replies_are_no_vectors(
    server: FakeServer, provider: EndpointProvider, body: str
) -> None:
    server.replies = [reply_of(200, body)]
    with pytest.raises(BadReply):
        await EmbeddingCache(Heard()).get_many(KIND, ["a"], provider)


async def test_server_that_is_not_there(server: FakeServer) -> None:
    provider = EndpointProvider(EmbeddingServer("http://127.0.0.1:9/v1", "m"))
    with pytest.raises(NoAnswer, match=r"127\.0\.0\.1:9"):
        await provider.embed(["a"])
    await provider.aclose()
    await provider.aclose()


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:40 GMT", 0.0),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after(told: str | None, seconds: float | None) -> None:
    assert retry_after(told, now=60.0) == seconds


@pytest.mark.parametrize(
    "wrong", [{"base_url": "ftp://x"}, {"model": ""}, {"dimensions": 0}], ids=str
)
def test_server_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        EmbeddingServer(**{"base_url": "http://x/v1", "model": "m", **wrong})


async def test_function_that_returns_no_vectors() -> None:
    async def nothing(texts: list[str]) -> Any:
        await asyncio.sleep(0)

    with pytest.raises(BadReply, match="no list of vectors"):
        await FunctionProvider(nothing).embed(["a"])
