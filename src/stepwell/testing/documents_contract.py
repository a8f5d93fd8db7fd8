"""What every library of documents must do, as a check to run on your own.

    def test_library() -> None:
        check_library(make_library)

It runs many examples, each on an event loop of its own and with a new library. Needs numpy.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
from hypothesis import given, settings

from stepwell.core.documents import (
    Chunk,
    CollectionId,
    Document,
    DocumentState,
    Edition,
    Epoch,
    KnownChunk,
    Library,
    Recipe,
)
from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.errors import EditionGone
from stepwell.core.vectors import Vector
from stepwell.testing.documents_steps import (
    KNOWN,
    LIFE,
    STEPS,
    Annotate,
    Drop,
    Open,
    Put,
    Remove,
    Rename,
    Serve,
    Step,
)

DIMENSIONS = 8
_HALF_PRECISION = 2e-3


def check_library(make_library: Callable[[], Awaitable[Library]], *, max_examples: int) -> None:
    """Check that a library agrees with plain dictionaries after any sequence of calls.

    Args:
        make_library: Returns a new, empty library.
        max_examples: How many sequences to try.
    """

    @settings(max_examples=max_examples, deadline=None)
    @given(STEPS)
    def agrees(steps: list[Step]) -> None:
        asyncio.run(_check(make_library, steps))

    asyncio.run(_check(make_library, LIFE))
    agrees()


def make_recipe(name: str, dimensions: int = DIMENSIONS) -> Recipe:
    """Return a recipe that no other name has."""
    return Recipe(VectorKind("test", "model"), dimensions, name)


def vector_of(text: str, dimensions: int = DIMENSIONS) -> Vector:
    """Return the vector of ``text``: of unit length, in a direction of its own."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    drawn = np.random.default_rng(seed).normal(size=dimensions).astype(np.float32)
    vector: Vector = drawn / np.linalg.norm(drawn)
    return vector


def digest_of(text: str) -> ContentDigest:
    """Return SHA-256 of ``text``."""
    return ContentDigest(hashlib.sha256(text.encode()).digest())


def make_document(
    name: str, texts: Sequence[str], *, metadata: str = "{}", updated_at: float = 0.0
) -> Document:
    """Return a document of these chunks."""
    chunks, start = [], 0
    for text in texts:
        chunks.append(Chunk(digest_of(text), text, start))
        start += len(text)
    return Document(name, digest_of("".join(texts)), metadata, updated_at, tuple(chunks))


def vectors_of(texts: Sequence[str]) -> Mapping[ContentDigest, Vector]:
    """Return the vectors of ``texts``."""
    return {digest_of(text): vector_of(text) for text in texts}


async def _check(make_library: Callable[[], Awaitable[Library]], steps: Sequence[Step]) -> None:
    library = await make_library()
    try:
        model = _Model(library)
        for step in steps:
            await model.follow(step)
            await model.compare()
    finally:
        await library.aclose()
        await library.aclose()


@dataclass
class _Edition:
    identity: Edition
    documents: dict[str, tuple[Document, Epoch]] = field(default_factory=dict)

    def texts(self) -> set[str]:
        return {chunk.text for document, _ in self.documents.values() for chunk in document.chunks}


@dataclass
class _Collection:
    identity: CollectionId
    editions: dict[str, _Edition] = field(default_factory=dict)
    serving: str | None = None


class _Model:
    """Dictionaries that know what the library must say."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._collections: dict[str, _Collection] = {}
        self._gone: list[Edition] = []
        self._clock = 0

    async def follow(self, step: Step) -> None:
        """Do ``step`` in both."""
        self._clock += 1
        match step:
            case Open(collection, recipe):
                await self._edition(collection, recipe)
            case Put() | Annotate() | Remove():
                await self._change(step)
            case Serve(collection, recipe):
                await self._serve(collection, recipe)
            case Rename(collection, name):
                await self._rename(collection, name)
            case Drop(collection):
                await self._drop(collection)
            case _:
                assert_never(step)

    async def _edition(self, name: str, recipe: str) -> _Edition:
        state, identity = await self._library.edition(name, make_recipe(recipe))
        collection = self._collections.setdefault(name, _Collection(state.collection))
        assert state.name == name
        assert state.collection == collection.identity
        edition = collection.editions.setdefault(recipe, _Edition(identity))
        assert identity == edition.identity
        return edition

    async def _change(self, step: Put | Annotate | Remove) -> None:
        edition = await self._edition(step.collection, step.recipe)
        document, epoch = edition.documents.get(step.document, (None, Epoch(0)))
        before = await self._epoch(step.collection)
        known = Epoch(epoch + 1) if step.outrun else epoch
        match step:
            case Put():
                done = await self._put(edition, step, known)
            case Annotate():
                done = document is not None and await self._library.annotate(
                    edition.identity, step.document, f'{{"n":{self._clock}}}', known
                )
                if done and document is not None:
                    changed = replace(document, metadata=f'{{"n":{self._clock}}}')
                    edition.documents[step.document] = changed, epoch
            case Remove():
                done = await self._remove(edition, step, known)
        assert done is not step.outrun or (document is None and not isinstance(step, Put))
        after = await self._epoch(step.collection)
        assert after > before if done and document is not None else after >= before
        await self._learn(edition, step.document, changed=done)

    async def _put(self, edition: _Edition, step: Put, known: Epoch) -> bool:
        digests = [digest_of(text) for text in step.texts]
        texts = edition.texts()
        missing = await self._library.missing(edition.identity, digests)
        assert missing == {digest_of(text) for text in step.texts if text not in texts}
        vectors = {
            digest: vector for digest, vector in vectors_of(step.texts).items() if digest in missing
        }
        document = make_document(step.document, step.texts, updated_at=self._clock)
        if missing:
            short = await self._library.replace(edition.identity, document, {}, known)
            assert short is None, "a document without a vector"
        left = await self._library.replace(edition.identity, document, vectors, known)
        if left is not None:
            edition.documents[step.document] = document, known
            self._check_left(left, texts, edition)
        return left is not None

    async def _remove(self, edition: _Edition, step: Remove, known: Epoch) -> bool:
        texts = edition.texts()
        left = await self._library.remove(edition.identity, step.document, known)
        if left is not None:
            edition.documents.pop(step.document, None)
            self._check_left(left, texts, edition)
        return left is not None

    def _check_left(self, left: Sequence[KnownChunk], before: set[str], edition: _Edition) -> None:
        gone = before - edition.texts()
        assert sorted(left) == sorted(KnownChunk(digest_of(text), text) for text in gone)

    async def _learn(self, edition: _Edition, name: str, *, changed: bool) -> None:
        """Compare what is known of a document, and note its epoch."""
        state = await self._library.document(edition.identity, name)
        known = edition.documents.get(name)
        assert (state is None) is (known is None)
        if state is not None and known is not None:
            document, before = known
            assert state.epoch > before if changed else state.epoch == before
            metadata = hashlib.sha256(document.metadata.encode()).digest()
            assert state == DocumentState(state.epoch, document.content, metadata)
            edition.documents[name] = document, state.epoch

    async def _epoch(self, name: str) -> Epoch:
        state = await self._library.collection(name)
        assert state is not None
        return state.epoch

    async def _serve(self, name: str, recipe: str) -> None:
        edition = await self._edition(name, recipe)
        collection = self._collections[name]
        before = await self._epoch(name)
        await self._library.serve(collection.identity, edition.identity)
        assert (await self._epoch(name) > before) is (collection.serving != recipe)
        self._forget(other for other in collection.editions.values() if other is not edition)
        collection.editions = {recipe: edition}
        collection.serving = recipe

    async def _rename(self, name: str, new: str) -> None:
        collection = self._collections.get(name)
        if collection is None:
            return
        done = await self._library.rename(collection.identity, new)
        assert done is (new == name or new not in self._collections)
        if done:
            self._collections[new] = self._collections.pop(name)

    async def _drop(self, name: str) -> None:
        collection = self._collections.pop(name, None)
        if collection is not None:
            await self._library.drop(collection.identity)
            await self._library.drop(collection.identity)
            self._forget(collection.editions.values())

    def _forget(self, editions: Iterable[_Edition]) -> None:
        self._gone += [edition.identity for edition in editions]

    async def compare(self) -> None:
        """Look at everything."""
        states = await self._library.collections()
        assert [state.name for state in states] == sorted(self._collections, key=str.encode)
        for state in states:
            await self._compare_collection(self._collections[state.name], state.name)
        for edition in self._gone[-2:]:
            await self._check_gone(edition)
        known = {
            text
            for collection in self._collections.values()
            for edition in collection.editions.values()
            for text in edition.texts()
        }
        asked = [*KNOWN, "never"]
        used = await self._library.used([digest_of(text) for text in asked])
        assert used == {digest_of(text) for text in known}

    async def _compare_collection(self, collection: _Collection, name: str) -> None:
        state = await self._library.collection(name)
        assert state is not None
        serving = None if collection.serving is None else collection.editions[collection.serving]
        assert state.serving == (None if serving is None else serving.identity)
        assert state.recipe == (
            None if collection.serving is None else make_recipe(collection.serving)
        )
        for edition in collection.editions.values():
            found = [name async for name, _ in self._library.documents(edition.identity)]
            assert found == sorted(edition.documents, key=str.encode)
            texts = [chunk.text async for chunk in self._library.chunks(edition.identity)]
            assert sorted(texts) == sorted(edition.texts())
            figures = await self._library.figures(edition.identity)
            assert figures == (len(edition.documents), len(texts))
            if edition is serving:
                await self._compare_found(edition)

    async def _compare_found(self, edition: _Edition) -> None:
        """Search for a text: it comes first, as of the document that has it and changed last."""
        everything = await self._library.nearest(edition.identity, vector_of("one"), 100)
        assert {passage.text for passage in everything} == edition.texts()
        assert len(everything) == len(edition.texts())
        similarities = [passage.similarity for passage in everything]
        assert similarities == sorted(similarities, reverse=True)
        for text in edition.texts():
            (nearest,) = await self._library.nearest(edition.identity, vector_of(text), 1)
            having = [
                (document.updated_at, document)
                for document, _ in edition.documents.values()
                if text in [chunk.text for chunk in document.chunks]
            ]
            _, document = max(having, key=lambda one: one[0])
            first = next(chunk for chunk in document.chunks if chunk.text == text)
            assert (nearest.text, nearest.document) == (text, document.name)
            assert (nearest.start, nearest.digest) == (first.start, first.digest)
            assert (nearest.metadata, nearest.updated_at) == (
                document.metadata,
                document.updated_at,
            )
            assert abs(nearest.similarity - 1.0) < _HALF_PRECISION

    async def _check_gone(self, edition: Edition) -> None:
        document = make_document("a.md", ["one"])
        calls: list[Awaitable[object]] = [
            self._library.document(edition, "a.md"),
            self._library.missing(edition, [digest_of("one")]),
            self._library.replace(edition, document, vectors_of(["one"]), Epoch(0)),
            self._library.annotate(edition, "a.md", "{}", Epoch(1)),
            self._library.remove(edition, "a.md", Epoch(1)),
            self._library.nearest(edition, vector_of("one"), 1),
        ]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, EditionGone), error
