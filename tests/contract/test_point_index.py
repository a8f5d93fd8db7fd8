"""What every index of points does, whoever searches it: the worker itself, or a server."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from support.point_servers import open_postgres_points, open_redis_points, until
from support.points import (
    DIMENSIONS,
    Degradations,
    make_group,
    make_id,
    make_near,
    make_point,
    make_vectors,
    open_index,
    texts,
)
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers, search_module

from stepwell.core.clock import SystemClock
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Point
from stepwell.core.vectors import Vector, Vectors
from stepwell.semantic.index.own import OwnIndex
from stepwell.semantic.index.port import FollowedIndex, Index
from stepwell.semantic.index.served import ServedIndex

HERE = make_id("partition")
LATER = time.time() + 3_600


class BothIndex(Index, FollowedIndex, Protocol):
    """As the layer sees it, and as the follower does."""


class Emptied:
    """A store that has nothing any more."""

    async def get(self, key: CacheKey) -> Entry | None:
        return None


OpenIndex = Callable[[str], Awaitable[BothIndex]]
"""Opens an index by its name; opened again, it is what it was."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start(f"loadmodule {search_module()}")


OPEN = {"postgres": open_postgres_points, "redis": open_redis_points}


@pytest.fixture(params=["own", "postgres", "redis"])
async def open_named(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenIndex]:
    """Open indexes of one kind; those of one name and embedder are one."""
    async with AsyncExitStack() as stack:

        async def own(name: str) -> BothIndex:
            return OwnIndex(await open_index(tmp_path / name, SystemClock()))

        async def served(name: str) -> BothIndex:
            server = request.getfixturevalue(request.param)
            opened = await OPEN[request.param](server.url, name, DIMENSIONS)
            index = ServedIndex(
                opened.points,
                Emptied(),
                clock=SystemClock(),
                events=Degradations(),
                settle_seconds=0.05,
            )
            stack.push_async_callback(index.aclose)
            stack.push_async_callback(index.flush, Position(0))
            return index

        yield own if request.param == "own" else served


@pytest.fixture
async def index(open_named: OpenIndex, request: pytest.FixtureRequest) -> BothIndex:
    """An empty index that is looked after."""
    opened = await open_named("t" + make_id(request.node.name).hex()[:16])
    assert await opened.maintain(Position(0))
    return opened


def point(name: str, **facts: Any) -> Point:
    return make_point(name, **{"expires_at": LATER, **facts})


async def add_all(index: Index, names: Sequence[str], vectors: Vectors) -> None:
    for name, vector in zip(names, vectors, strict=True):
        await index.add(point(name), vector)


async def find(index: Index, vector: Vector, k: int = 8, partition: bytes = HERE) -> list[str]:
    return texts(await index.search(partition, vector, k, time.time()))


async def test_nearest_first_with_all_facts(index: BothIndex) -> None:
    """Keys, words, temperature, expiry, position; similarity is the cosine."""
    vectors = make_vectors(50)
    await add_all(index, [f"n{number}" for number in range(50)], vectors)
    warm = point("warm", temperature=0.7, position=12)
    asked = make_vectors(1, seed=9)[0]
    near = make_near(asked[None], 0.97)[0]
    await index.add(warm, near)
    found = await index.search(HERE, asked, 4, time.time())
    order = np.argsort(-(vectors @ asked))
    assert texts(found) == ["warm", *(f"n{row}" for row in order[:3])]
    first = found[0]
    assert (first.key, first.text, first.temperature) == (warm.key, warm.text, 0.7)
    assert (first.expires_at, first.position) == (LATER, 12)
    assert [one.similarity for one in found] == pytest.approx(
        [asked @ near, *(vectors[order[:3]] @ asked)], abs=1e-6
    )
    assert found[1].temperature is None
    assert await find(index, asked, k=1) == ["warm"]


async def test_any_words_come_back(index: BothIndex) -> None:
    """Chinese, quotes, a null byte, half of a pair of surrogates."""
    vector = make_vectors(1)[0]
    words = ["天气'\"; DROP TABLE x --", "null \0 byte", "half \ud83d of a pair"]
    for number, text in enumerate(words):
        await index.add(replace(point(f"words {number}"), text=text), vector)
    assert sorted(one.text for one in await index.search(HERE, vector, 8, time.time())) == sorted(
        words
    )


async def test_partitions_are_never_mixed(index: BothIndex) -> None:
    """However near the points of another are, and however many."""
    vectors = make_vectors(300)
    for number, vector in enumerate(vectors):
        await index.add(point(f"other {number}", partition="other"), vector)
    far = -vectors[0]
    await index.add(point("mine"), far)
    assert await find(index, vectors[0]) == ["mine"]
    assert "mine" not in await find(index, far, partition=make_id("other"))
    assert await find(index, far, partition=make_id("third")) == []


async def test_expired_points_do_not_match(index: BothIndex) -> None:
    """By the caller's clock."""
    vector = make_vectors(1)[0]
    await index.add(point("soon", expires_at=LATER - 1_000), vector)
    await index.add(point("later"), vector)
    found = await index.search(HERE, vector, 8, LATER - 1_000)
    assert texts(found) == ["later"]
    assert await index.search(HERE, vector, 8, LATER) == []


async def test_a_key_has_one_point_the_newest(index: BothIndex) -> None:
    """By position, then by expiry, in whatever order they come."""
    vector = make_vectors(1)[0]
    for position, expires_at in ((5, LATER), (4, LATER + 9), (5, LATER - 9), (5, LATER + 5)):
        await index.add(point("one", position=position, expires_at=expires_at), vector)
    (found,) = await index.search(HERE, vector, 8, time.time())
    assert (found.position, found.expires_at) == (5, LATER + 5)


async def test_a_removed_key_is_not_found(index: BothIndex) -> None:
    """Soon; others stay; it may come again."""
    vectors = make_vectors(2)
    await add_all(index, ["gone", "stays"], vectors)
    index.remove(point("gone").key)
    index.remove(point("unknown").key)
    await until(lambda: find(index, vectors[0]), ["stays"])
    await index.add(point("gone"), vectors[0])
    assert await find(index, vectors[0]) == ["gone", "stays"]


GROUPS = [
    make_group(namespace, model, request_class)
    for namespace in (0, 1)
    for model in ("small", "large")
    for request_class in ("general", "faq")
]
TAGS: list[tuple[str, ...]] = [(), ("cows",), ("cows", "标签 {1}")]


@pytest.mark.parametrize(
    "selector",
    [
        Selector(),
        Selector(namespace=GROUPS[0].namespace),
        Selector(model="large"),
        Selector(request_class="faq"),
        Selector(tag="cows"),
        Selector(tag="标签 {1}"),
        Selector(namespace=GROUPS[-1].namespace, model="small", request_class="faq", tag="cows"),
        Selector(key=CacheKey(make_id("p3"))),
        Selector(key=CacheKey(make_id("p3")), tag="none"),
    ],
    ids=str,
)
async def test_invalidations_are_obeyed(index: BothIndex, selector: Selector) -> None:
    """Points that are meant and older than the change go, and no others."""
    vectors = make_vectors(48)
    points = [
        point(f"p{number}", group=group, tags=tags, position=position)
        for number, (group, tags, position) in enumerate(
            (group, tags, position) for group in GROUPS for tags in TAGS for position in (6, 7)
        )
    ]
    for one, vector in zip(points, vectors, strict=True):
        await index.add(one, vector)
    index.remove_where(selector, Position(7))
    left = {one.key for one in points if not (one.is_meant(selector) and one.position < 7)}

    async def held() -> set[CacheKey]:
        lacking = await index.lacking([Arrived(one.key, one.expires_at) for one in points])
        return {one.key for one in points} - {one.key for one in lacking}

    await until(held, left)
    assert len(await find(index, vectors[0], k=48)) == len(left)


async def test_what_it_lacks(index: BothIndex) -> None:
    """What it has no point of, or an older one."""
    vector = make_vectors(1)[0]
    await index.add(point("held"), vector)
    held = Arrived(point("held").key, LATER)
    newer, unknown = replace(held, expires_at=LATER + 1), Arrived(point("unknown").key, LATER)
    assert list(await index.lacking([held, newer, unknown])) == [newer, unknown]
    assert list(await index.lacking([])) == []


async def test_it_survives_a_restart(open_named: OpenIndex) -> None:
    """What was there is there."""
    vectors = make_vectors(3)
    first = await open_named("restart")
    assert await first.maintain(Position(1))
    await add_all(first, ["a", "b", "c"], vectors)
    await first.flush(Position(1))
    again = await open_named("restart")
    assert await again.maintain(Position(1))
    assert await find(again, vectors[1], k=1) == ["b"]
    assert list(await again.lacking([Arrived(point("c").key, LATER)])) == []


async def test_a_gap_is_closed_once(index: BothIndex) -> None:
    """Whoever is to keep it is told that it may lack something, until it was given all."""
    if (gap := index.gap) is not None:
        index.close_gap(gap)
    assert index.gap is None
    assert await index.maintain(Position(0))
    assert index.gap is None
