"""Sync and a library on a real PostgreSQL: concurrent runs, a server that dies, its index."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import numpy as np
import pytest
from support.documents import (
    MANUAL,
    FakeChunks,
    found,
    open_postgres_library,
    sync,
    texts,
)
from support.points import make_near, make_vectors
from support.postgres_server import PostgresServer, postgres_server

from stepwell.core.documents import Epoch, Library
from stepwell.core.errors import ConfigError, EditionGone, StoreUnavailable
from stepwell.embedding.documents.vectors import ChunkVectors
from stepwell.stores.postgres.documents.store import PostgresLibrary
from stepwell.testing.documents_contract import digest_of, make_document, make_recipe, vectors_of

Open = Callable[[], Awaitable[PostgresLibrary]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture
async def open_library(
    server: PostgresServer, request: pytest.FixtureRequest
) -> AsyncIterator[Open]:
    """Open the library of a test, as another process would."""
    prefix = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:16]
    opened: list[PostgresLibrary] = []

    async def open_one() -> PostgresLibrary:
        opened.append(await open_postgres_library(server.url, prefix))
        return opened[-1]

    yield open_one
    for library in opened:
        await library.aclose()


class MidwayChunks(FakeChunks):
    """Tells when a run is well under way."""

    def __init__(self) -> None:
        super().__init__()
        self.is_midway = asyncio.Event()

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        vectors = await super().embed(texts)
        if len(self.embedded) >= 10:
            self.is_midway.set()
        return vectors


async def check_whole(library: Library) -> None:
    """Check that what is kept is what can be found: no orphans, nothing missing."""
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.serving is not None
    kept = {chunk.text async for chunk in library.chunks(state.serving)}
    assert kept == await texts(library)


async def test_a_collection_follows_its_source(open_library: Open) -> None:
    """As in a file: random edits, moves and deletions, by two processes in turn."""
    chance = random.Random(6)
    libraries = [await open_library(), await open_library()]
    source: dict[str, str] = {}
    for _ in range(12):
        for _ in range(3):
            name = f"{chance.randrange(6)}.md"
            if chance.random() < 0.3 and name in source:
                source[f"{chance.randrange(6)}.md"] = source.pop(name)
            elif chance.random() < 0.2:
                source.pop(name, None)
            else:
                source[name] = "".join(
                    f"{chance.choice('abcd') * 200} is a sentence. " for _ in range(6)
                )
        library = chance.choice(libraries)
        embedder = FakeChunks()
        await sync(library, embedder, source, allow_empty=True)
        assert len(embedder.embedded) == len(set(embedder.embedded))
        await check_whole(library)
        again = FakeChunks()
        summary = await sync(chance.choice(libraries), again, source, allow_empty=True)
        assert (again.calls, summary.wrote, summary.unchanged) == (0, False, len(source))


async def test_runs_at_once_end_as_one(open_library: Open) -> None:
    """Of one source: nobody fails, and every document is put in by one of them."""
    source = {f"{n}.md": f"Text {n}. " * (n + 1) for n in range(40)}
    await sync(await open_library(), FakeChunks(), {f"{n}.md": "Old." for n in range(30)})
    libraries = [await open_library() for _ in range(3)]
    done = await asyncio.gather(*(sync(one, FakeChunks(), source) for one in libraries))
    assert [summary.failed for summary in done] == [[], [], []]
    assert sum(summary.added + summary.changed for summary in done) == 40
    await check_whole(libraries[0])


async def test_runs_at_once_of_different_sources_leave_no_orphans(open_library: Open) -> None:
    """They share texts, which the one gives up while the other takes them."""
    libraries = [await open_library() for _ in range(2)]
    shared = [f"{letter * 300} is shared. " for letter in "abcdef"]

    async def edit(library: PostgresLibrary, who: str, seed: int) -> None:
        chance = random.Random(seed)
        _, edition = await library.edition(MANUAL, make_recipe("r"))
        for _ in range(40):
            some = tuple(chance.sample(shared, chance.randrange(4)))
            state = await library.document(edition, f"{who}.md")
            document = make_document(f"{who}.md", some)
            await library.replace(
                edition, document, vectors_of(some), Epoch(0) if state is None else state.epoch
            )

    await asyncio.gather(*(edit(one, f"{n}", n) for n, one in enumerate(libraries * 2)))
    state, edition = await libraries[0].edition(MANUAL, make_recipe("r"))
    await libraries[0].serve(state.collection, edition)
    await check_whole(libraries[0])


async def test_a_server_that_dies_in_the_middle_loses_nothing(
    server: PostgresServer, open_library: Open
) -> None:
    """What it was is served again when it is back, and the next run does what is left."""
    library = await open_library()
    await sync(library, FakeChunks(), {f"{n}.md": f"Old {n}." for n in range(60)})
    server.query("CHECKPOINT")  # The tests' server flushes nothing by itself.
    source = {f"{n}.md": f"New {n}. " * 30 for n in range(60)}
    embedder = MidwayChunks()
    run = asyncio.create_task(sync(library, embedder, source))
    await embedder.is_midway.wait()
    server.kill()
    try:
        with pytest.raises(StoreUnavailable):
            await run
    finally:
        server.start()
    fresh = await open_library()
    await check_whole(fresh)
    assert (await sync(fresh, FakeChunks(), source)).failed == []
    await check_whole(fresh)
    assert (await found(fresh, "x", k=1000))[0].text.startswith("New")


async def test_a_search_of_what_is_dropped_meanwhile_says_so(open_library: Open) -> None:
    """And the library goes on with the rest."""
    library, other = await open_library(), await open_library()
    await sync(library, FakeChunks(), {"a.md": "Text."})
    state = await library.collection(MANUAL)
    assert state is not None
    assert state.serving is not None
    await other.drop(state.collection)
    with pytest.raises(EditionGone):
        await library.nearest(state.serving, make_vectors(1, dimensions=8)[0], 1)
    assert list(await library.collections()) == []
    assert library.trouble == ""


async def test_vectors_too_wide_to_be_indexed_are_refused(open_library: Open) -> None:
    """Before anything is embedded; and nothing is left of it."""
    library = await open_library()
    with pytest.raises(ConfigError, match="4000"):
        await library.edition(MANUAL, make_recipe("r", dimensions=4_001))
    assert list(await library.collections()) == []


async def test_the_index_finds_nearly_all(server: PostgresServer, open_library: Open) -> None:
    """Of many passages, also right after many others were deleted."""
    library = await open_library()
    dimensions, count = 32, 2_000
    recipe = make_recipe("r", dimensions)
    state, edition = await library.edition(MANUAL, recipe)
    vectors = make_vectors(count, dimensions=dimensions)
    for start in range(0, count, 500):
        names = [f"passage {n}" for n in range(start, start + 500)]
        document = make_document(f"{start}.md", names)
        made = zip(map(digest_of, names), vectors[start : start + 500], strict=True)
        assert await library.replace(edition, document, dict(made), Epoch(0)) is not None
    await library.serve(state.collection, edition)
    for start in (0, 500):
        known = await library.document(edition, f"{start}.md")
        assert known is not None
        assert await library.remove(edition, f"{start}.md", known.epoch)
    left = vectors[1_000:]
    hits = 0
    for query in make_near(left[:100], 0.8, seed=5):
        true = {f"passage {1_000 + n}" for n in np.argsort(-(left @ query))[:5]}
        hits += len(true & {one.text for one in await library.nearest(edition, query, 5)})
    assert hits / 500 >= 0.95
    assert "hnsw" in server.query(
        f"SELECT indexdef FROM pg_indexes WHERE tablename LIKE '%_passages_{edition}'"
    )
