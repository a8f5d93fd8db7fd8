"""Laws of sync: whatever happens to a source, a collection follows it."""

import asyncio
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.documents import MANUAL, SMALL, FakeChunks, found, open_library, sync

from stepwell.core.documents import Library
from stepwell.core.errors import EmbeddingError
from stepwell.embedding.documents.cutting import cut
from stepwell.embedding.documents.sources import Given

_NAMES = ["a.md", "b.md", "sub/c.md"]
_SENTENCES = [f"{word * 60} is sentence {word}. " for word in "abcdefgh"]

_texts = st.lists(st.sampled_from(_SENTENCES), max_size=12).map("".join) | st.just("  \n")


@dataclass(frozen=True)
class _Write:
    name: str
    text: str


@dataclass(frozen=True)
class _Edit:
    """Put a sentence into a document."""

    name: str
    sentence: str
    at: int


@dataclass(frozen=True)
class _Annotate:
    name: str
    number: int


@dataclass(frozen=True)
class _Delete:
    name: str


@dataclass(frozen=True)
class _Move:
    name: str
    new: str


@dataclass(frozen=True)
class _Sync:
    poison: frozenset[str]
    """Documents with any of these sentences cannot be embedded."""
    model: str


_names = st.sampled_from(_NAMES)
_steps = st.lists(
    st.builds(_Write, _names, _texts)
    | st.builds(_Edit, _names, st.sampled_from(_SENTENCES), st.integers(0, 9))
    | st.builds(_Annotate, _names, st.integers(0, 2))
    | st.builds(_Delete, _names)
    | st.builds(_Move, _names, _names)
    | st.builds(
        _Sync,
        st.frozensets(st.sampled_from(_SENTENCES), max_size=1) | st.just(frozenset()),
        st.sampled_from(["model", "model", "model", "other"]),
    ),
    min_size=3,
    max_size=20,
)

Source = dict[str, tuple[str, str]]
"""Text and metadata by name."""


@settings(max_examples=40, deadline=None)
@given(_steps)
def test_a_collection_follows_its_source(steps: Sequence[object]) -> None:
    """After any edits, moves, deletions and failures: see `_Follower`."""
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_follow(Path(directory), [*steps, _Sync(frozenset(), "model")]))


async def _follow(directory: Path, steps: Sequence[object]) -> None:
    library = await open_library(directory)
    try:
        follower = Follower(library)
        for step in steps:
            await follower.follow(step)
    finally:
        await library.aclose()


class Follower:
    """A source, and what must be in the library after each run.

    A run that could do everything leaves what the source has, and has embedded each chunk that was
    new, once. A run that could not leaves each document as it was, or as it is.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._source: Source = {}
        self._served: Source = {}
        self._model = ""

    async def follow(self, step: object) -> None:
        """Do ``step``."""
        source = self._source
        match step:
            case _Write(name, text):
                source[name] = text, "{}"
            case _Edit(name, sentence, at) if name in source:
                text, metadata = source[name]
                place = len(text) * at // 10
                source[name] = text[:place] + sentence + text[place:], metadata
            case _Annotate(name, number) if name in source:
                source[name] = source[name][0], f'{{"n":{number}}}'
            case _Delete(name):
                source.pop(name, None)
            case _Move(name, new) if name in source:
                source[new] = source.pop(name)
            case _Sync(poison, model):
                await self._sync(poison, model)
            case _:
                pass

    async def _sync(self, poison: frozenset[str], model: str) -> None:
        embedder = FakeChunks(model)
        chunks = {chunk for text, _ in self._source.values() for chunk in pieces(text)}
        embedder.poison = {chunk for chunk in chunks if any(bad in chunk for bad in poison)}
        reads = [Given(name, *row, updated_at=0.0) for name, row in self._source.items()]
        known = {chunk for text, _ in self._served.values() for chunk in pieces(text)}
        try:
            summary = await sync(self._library, embedder, reads, allow_empty=True)
        except EmbeddingError:
            failed = True
        else:
            failed = bool(summary.failed)
        assert len(embedder.embedded) == len(set(embedder.embedded)), "embedded twice"
        served = await self._look()
        if not failed:
            assert served == self._source
            if self._model == model:
                assert chunks - known <= set(embedder.embedded) <= chunks
            self._model = model
        elif self._model == model:
            assert served.keys() >= self._source.keys() & self._served.keys()
            for name, row in served.items():
                assert row in (self._source.get(name), self._served.get(name)), name
        elif self._model:
            assert served == self._served
        self._served = served

    async def _look(self) -> Source:
        """Return the source that what is served was made of, as far as it can be told."""
        state = await self._library.collection(MANUAL)
        if state is None or state.serving is None:
            return {}
        passages = {one.text for one in await found(self._library, "x", k=10_000)}
        kept = {chunk.text async for chunk in self._library.chunks(state.serving)}
        assert passages == kept, "orphans"
        rows: Source = {}
        known = [one async for one in self._library.documents(state.serving)]
        for name, document in known:
            rows[name] = self._row(name, document.content, document.metadata)
        assert passages == {
            chunk for text, _ in rows.values() for chunk in pieces(text) if not chunk.isspace()
        }
        return rows

    def _row(self, name: str, content: bytes, metadata: bytes) -> tuple[str, str]:
        """Return the text and metadata that these are digests of."""
        for rows in (self._source, self._served):
            if name in rows and tuple(map(digest, rows[name])) == (content, metadata):
                return rows[name]
        raise AssertionError(f"{name} is neither as it was nor as it is")


def digest(text: str) -> bytes:
    """Return SHA-256 of ``text``."""
    return hashlib.sha256(text.encode()).digest()


def pieces(text: str) -> list[str]:
    """Return the chunks of ``text``."""
    return [] if text.isspace() else [piece.text for piece in cut(text, SMALL)]
