"""Groups of answers (RFC 9875): given by the model server, shown, and invalidated by name."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway import Answer, Gateway, running_gateway
from support.metrics import total
from support.redis_servers import PATIENCE_SECONDS, RedisServer, redis_servers

from stepwell.testing.fake_upstream import FakeUpstream, Script

Start = Callable[..., AbstractAsyncContextManager[Gateway]]

NO_EMBEDDER = {"semantic": {"embedder": "off"}}


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start()


@pytest.fixture(params=["memory", "disk", "redis"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where answers are."""
    match request.param:
        case "memory":
            return {**NO_EMBEDDER, "stores": {"disk": {"enabled": False}}}
        case "disk":
            return NO_EMBEDDER
        case _:
            redis = request.getfixturevalue("redis")
            return {**NO_EMBEDDER, "stores": {"redis": {"url": redis.url}}}


@pytest.fixture
def start(upstream: FakeUpstream, tmp_path: Path, settings: dict[str, Any]) -> Start:
    @asynccontextmanager
    async def start(name: str = "one") -> AsyncIterator[Gateway]:
        async with running_gateway(tmp_path / name, upstream.base_url, settings) as gateway:
            yield gateway

    return start


def says(*headers: tuple[str, str], **fields: Any) -> Script:
    return Script(headers=headers, **fields)


async def seen(gateway: Gateway, text: str, **fields: Any) -> str:
    """Return how a question is answered; nothing is stored for it."""
    headers = {"Cache-Control": "no-store"}
    answer = await gateway.ask(text, headers=headers, **fields)
    return str(answer.headers["x-cache"])


async def becomes(wanted: str, gateway: Gateway, text: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await seen(gateway, text) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def invalidate(gateway: Gateway, groups: str, body: Any = None, **headers: str) -> Answer:
    fields = {"Cache-Group-Invalidation": groups, **headers}
    body = {"dry_run": False} if body is None else body
    return await gateway.post(body, path="/admin/invalidate", key=None, headers=fields)


async def test_a_group_that_the_model_server_gives(start: Start, upstream: FakeUpstream) -> None:
    """It is shown with the tags of the request by replies from the cache, and goes as they do."""
    upstream.queue.append(says(("cache-groups", '"returns";x, "faq"'), ("cache-groups", '"shop"')))
    async with start() as gateway:
        made = await gateway.ask("one", metadata={"stepwell_tags": "faq, mine, 标签"})
        assert made.headers.getall("cache-groups") == ['"returns";x, "faq"', '"shop"']
        await gateway.ask("two")
        await gateway.settle()
        for _ in range(3):  # the last by the short way
            hit = await gateway.ask("one")
            assert hit.headers["x-cache"] == "HIT"
            assert hit.headers.getall("cache-groups") == ['"faq", "mine", "returns", "shop"']
        assert "cache-groups" not in (await gateway.ask("two")).headers
        counted = await invalidate(gateway, '"shop"', {"dry_run": True})
        assert json.loads(counted.body) == {"matched": 1, "removed": 0}
        removed = await invalidate(gateway, '"nobody", "shop"')
        assert json.loads(removed.body) == {"matched": 1, "removed": 1}
        assert [await seen(gateway, text) for text in ("one", "two")] == ["MISS", "HIT"]


async def test_an_answer_before_all_is_removed(start: Start, upstream: FakeUpstream) -> None:
    """Who does not ask how many, is obeyed all the same."""
    upstream.queue.append(says(("cache-groups", '"a"')))
    async with start() as gateway:
        await gateway.ask("one")
        await gateway.settle()
        answer = await invalidate(gateway, '"a"', Prefer="wait=5, respond-async")
        assert (answer.status, json.loads(answer.body)) == (202, {"obeyed": True})
        assert answer.headers["preference-applied"] == "respond-async"
        assert await seen(gateway, "one") == "MISS"
        again = await invalidate(gateway, '"a"')
        assert json.loads(again.body) == {"matched": 0, "removed": 0}


@pytest.mark.parametrize("by", ["embeddings", "completion"])
async def test_a_reply_that_invalidates(start: Start, upstream: FakeUpstream, by: str) -> None:
    """The caller's own entries of the group; nobody else's."""
    upstream.scripts["fake"] = says(("cache-groups", '"a"'))
    async with start() as gateway:
        for key in ("sk-test", "sk-another"):
            await gateway.ask("one", key=key)
        await gateway.settle()
        upstream.queue.append(says(("cache-group-invalidation", '"b", "a"')))
        if by == "embeddings":
            body = {"model": "fake", "input": "text"}
            assert (await gateway.post(body, path="/v1/embeddings")).status == 200
        else:
            assert await seen(gateway, "two") == "MISS"
        assert await seen(gateway, "one") == "MISS"
        assert await seen(gateway, "one", key="sk-another") == "HIT"


async def test_replies_that_invalidate_nothing(start: Start, upstream: FakeUpstream) -> None:
    """To a safe request; an error; one without a tenant; a list that cannot be read."""
    upstream.scripts["fake"] = says(("cache-groups", '"a"'))
    says_so = ("cache-group-invalidation", '"a"')
    async with start() as gateway:
        await gateway.ask("one")
        await gateway.settle()
        upstream.queue.append(says(says_so))
        await gateway.get("/v1/models", {"authorization": "Bearer sk-test"})
        upstream.queue.append(says(says_so, status=400))
        await gateway.ask("two")
        upstream.queue.append(says(says_so))
        await gateway.ask("three", key=None)
        upstream.queue.append(says(("cache-group-invalidation", '"a", b')))
        await gateway.ask("four")
        assert await seen(gateway, "one") == "HIT"
        assert await total(gateway, "stepwell_failures_total", component="groups") == 1


async def test_a_list_that_is_too_long(start: Start, upstream: FakeUpstream) -> None:
    """Groups that cannot all be kept: the answer is not. To invalidate: all of the tenant's go."""
    much = ", ".join(f'"{number}"' for number in range(33))
    async with start() as gateway:
        upstream.queue.append(says(("cache-groups", much)))
        answer = await gateway.ask("one")
        assert answer.headers["x-stepwell-not-stored"] == "groups"
        assert await seen(gateway, "one") == "MISS"
        for key in ("sk-test", "sk-another"):
            await gateway.ask("two", key=key)
        await gateway.settle()
        upstream.queue.append(says(("cache-group-invalidation", much)))
        await gateway.ask("three")
        assert await seen(gateway, "two") == "MISS"
        assert await seen(gateway, "two", key="sk-another") == "HIT"


async def test_groups_that_cannot_be_read(start: Start, upstream: FakeUpstream) -> None:
    """As if there were none; it is counted."""
    upstream.queue.append(says(("cache-groups", "returns")))
    async with start() as gateway:
        await gateway.ask("one")
        await gateway.settle()
        hit = await gateway.ask("one")
        assert (hit.headers["x-cache"], hit.headers.get("cache-groups")) == ("HIT", None)
        assert await total(gateway, "stepwell_failures_total", component="groups") == 1


@pytest.mark.parametrize(
    ("groups", "body"),
    [
        ("a", {}),
        ("", {}),
        ('"a"', {"tag": "b"}),
        ('"a"', {"everything": True}),
        (", ".join(f'"{number}"' for number in range(33)), {}),
    ],
)
async def test_an_operator_who_errs_is_told(start: Start, groups: str, body: Any) -> None:
    """Nothing is taken for nothing, or for something else."""
    async with start() as gateway:
        assert (await invalidate(gateway, groups, {**body, "dry_run": False})).status == 400


@pytest.mark.parametrize("settings", ["redis"], indirect=True)
async def test_two_gateways(start: Start, upstream: FakeUpstream, redis: RedisServer) -> None:
    """What one is told, also by a model server, the other obeys; nothing need be removed yet."""
    async with start("one") as one, start("two") as two:
        for prefer, how in (({}, "operator"), ({"Prefer": "respond-async"}, "operator"), ({}, "")):
            upstream.scripts["fake"] = says(("cache-groups", '"a"'))
            await one.ask("question")
            await becomes("HIT", two, "question")
            upstream.scripts["fake"] = says(("cache-group-invalidation", '"a"'))
            if how:
                await invalidate(one, '"a"', **prefer)
            else:
                await one.ask("another", headers={"Cache-Control": "no-store"})
            upstream.scripts["fake"] = Script()
            assert await seen(one, "question") == "MISS"
            await becomes("MISS", two, "question")
        assert redis.ask("KEYS", "stepwell:e:*")


@pytest.mark.parametrize("settings", ["redis"], indirect=True)
async def test_a_store_that_is_gone(
    start: Start, upstream: FakeUpstream, redis: RedisServer
) -> None:
    """The reply comes all the same, and what was not done is counted."""
    async with start() as gateway:
        redis.kill()
        upstream.queue.append(says(("cache-group-invalidation", '"a"')))
        assert (await gateway.ask("one")).status == 200
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await total(gateway, "stepwell_failures_total", component="groups"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
