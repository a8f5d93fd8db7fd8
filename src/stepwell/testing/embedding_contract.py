"""What every place where vectors stand must do, as checks to run on your own.

    def test_store() -> None:
        check_full_store(make_store)

Each check runs many examples, each on an event loop of its own and with a new store; Hypothesis
shrinks what fails. They are plain functions: call them from a synchronous test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.embedding import (
    Claims,
    ContentDigest,
    Deletions,
    EmbeddingStore,
    FullStore,
    Item,
    VectorKind,
)
from stepwell.core.errors import StoreFull

_TEXTS = ("", "x", "天气", "y\x00z")
_KINDS = tuple(VectorKind("here", model) for model in ("a", "b", "c"))
_AT_MOST = 2
_LONG_MILLISECONDS = 600_000


def make_digest(text: str) -> ContentDigest:
    """Return a digest for tests."""
    return ContentDigest(sha256(text.encode()).digest())


@dataclass(frozen=True)
class _Register:
    kind: VectorKind


@dataclass(frozen=True)
class _Put:
    version: str
    texts: tuple[str, ...]
    with_text: bool
    began: int
    """So many steps ago."""


@dataclass(frozen=True)
class _Delete:
    version: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class _Retire:
    version: str


@dataclass(frozen=True)
class _Canaries:
    version: str
    texts: tuple[str, ...]


_versions = st.sampled_from([kind.version for kind in _KINDS])
_some = st.lists(st.sampled_from(_TEXTS), unique=True).map(tuple)
_puts = st.builds(_Put, _versions, _some, st.booleans(), st.integers(0, 3))
_deletes = st.builds(_Delete, _versions, _some)
_full_steps = st.lists(
    st.builds(_Register, st.sampled_from(_KINDS))
    | _puts
    | _deletes
    | st.builds(_Retire, _versions)
    | st.builds(_Canaries, _versions, _some),
    max_size=20,
)


def check_full_store(
    make_store: Callable[[], Awaitable[FullStore]], *, max_examples: int = 50
) -> None:
    """Check that a full store agrees with dicts after any sequence of calls.

    Args:
        make_store: Returns a new, empty store.
        max_examples: How many sequences to try.
    """

    @settings(max_examples=max_examples, deadline=None)
    @given(_full_steps)
    def agrees(steps: list[_Register | _Put | _Delete | _Retire | _Canaries]) -> None:
        async def run() -> None:
            store = await make_store()
            try:
                model = _Full(store)
                for step in steps:
                    await model.follow(step)
                    await model.compare()
            finally:
                await store.aclose()
                await store.aclose()

        asyncio.run(run())

    agrees()


def check_part_store(
    make_store: Callable[[], Awaitable[EmbeddingStore]], *, max_examples: int = 50
) -> None:
    """Check that a store with room agrees with a dict, and keeps nothing soon after its deletion.

    Args:
        make_store: Returns a new, empty store.
        max_examples: How many sequences to try.
    """

    @settings(max_examples=max_examples, deadline=None)
    @given(st.lists(_puts | _deletes, max_size=20))
    def agrees(steps: list[_Put | _Delete]) -> None:
        async def run() -> None:
            store = await make_store()
            try:
                model = _Part(store)
                for step in steps:
                    await model.follow(step)
                    await model.compare()
            finally:
                await store.aclose()
                await store.aclose()

        asyncio.run(run())

    agrees()


class ClosedClaims(Claims, Protocol):
    """Claims that hold something open."""

    async def aclose(self) -> None:
        """Release it."""
        ...


def check_claims(
    make_handles: Callable[[], Awaitable[tuple[ClosedClaims, ClosedClaims]]],
    *,
    max_examples: int = 50,
) -> None:
    """Check that of two claimants one at a time has a digest, until it releases it.

    Args:
        make_handles: Returns two handles, as two processes would have, on one new, empty store.
        max_examples: How many sequences to try.
    """
    claims = st.tuples(st.booleans(), st.integers(0, 1), _versions, _some)

    @settings(max_examples=max_examples, deadline=None)
    @given(st.lists(claims, max_size=15))
    def agrees(steps: list[tuple[bool, int, str, tuple[str, ...]]]) -> None:
        async def run() -> None:
            handles = await make_handles()
            holders: dict[tuple[str, str], int] = {}
            for is_release, who, version, texts in steps:
                digests = [make_digest(text) for text in texts]
                if is_release:
                    await handles[who].release(version, digests)
                    for text in texts:
                        if holders.get((version, text)) == who:
                            del holders[version, text]
                else:
                    got = await handles[who].claim(version, digests, _LONG_MILLISECONDS)
                    mine = {t for t in texts if holders.setdefault((version, t), who) == who}
                    assert set(got) == set(map(make_digest, mine))
            for handle in handles:
                await handle.aclose()

        asyncio.run(run())

    agrees()


class _Part:
    """A dict that knows what a store must say which has room, and knows no deletions."""

    def __init__(self, store: EmbeddingStore) -> None:
        self._store = store
        self._values: dict[tuple[str, ContentDigest], bytes | None] = {}
        self._made = 0

    async def follow(self, step: _Put | _Delete) -> None:
        match step:
            case _Put(version, texts):
                self._made += 1
                items = _items(step, self._made)
                await self._store.put(version, items, Deletions(0))
                for item in items:
                    self._values.setdefault((version, item.digest), item.value)
            case _Delete(version, texts):
                digests = [make_digest(text) for text in texts]
                there = sum(self._values.get((version, digest)) is not None for digest in digests)
                assert await self._store.delete(version, digests) == there, step
                self._values.update({(version, digest): None for digest in digests})
            case _:
                assert_never(step)

    async def compare(self) -> None:
        for version in (kind.version for kind in _KINDS):
            found = await self._store.get(version, [make_digest(text) for text in _TEXTS])
            expected = {
                digest: value
                for (whose, digest), value in self._values.items()
                if whose == version and value is not None
            }
            assert dict(found.values) == expected, version


class _Full:
    """Dicts that know what a full store must say."""

    def __init__(self, store: FullStore) -> None:
        self._store = store
        self._kinds: dict[str, VectorKind] = {}
        self._began: dict[str, int] = {}
        """The step in which a version was registered."""
        self._items: dict[tuple[str, ContentDigest], Item] = {}
        self._deleted: dict[tuple[str, ContentDigest], int] = {}
        """The step of the last deletion."""
        self._canaries: dict[str, dict[str, bytes]] = {}
        self._seen: list[Deletions] = []
        """The count of deletions before each step."""

    async def follow(self, step: _Register | _Put | _Delete | _Retire | _Canaries) -> None:
        self._seen.append((await self._store.get(_KINDS[0].version, [])).deletions)
        match step:
            case _Register(kind):
                await self._register(kind)
            case _Put(version):
                await self._put(version, step)
            case _Delete(version, texts):
                await self._delete(version, [make_digest(text) for text in texts])
            case _Retire(version):
                await self._store.retire(version)
                self._forget(version)
            case _Canaries(version, texts):
                kept = {text: f"{len(self._seen)} {text}".encode() for text in texts}
                await self._store.keep_canaries(version, kept)
                if version in self._kinds and not self._canaries.get(version):
                    self._canaries[version] = kept
            case _:
                assert_never(step)

    async def compare(self) -> None:
        digests = [make_digest(text) for text in _TEXTS]
        for version in (kind.version for kind in _KINDS):
            found = await self._store.get(version, digests)
            expected = {item.digest: item.value for item in self._of(version)}
            assert dict(found.values) == expected, version
            assert set(await self._store.sample(version, 10)) == expected.keys()
            deleted = {digest for whose, digest in self._deleted if whose == version}
            assert set(await self._store.deleted(version, 10)) == deleted
            assert dict(await self._store.canaries(version)) == self._canaries.get(version, {})
        assert {
            figures.kind.version: (figures.kind, figures.vectors, figures.with_text)
            for figures in await self._store.versions()
        } == {
            version: (kind, len(self._of(version)), len(self._texts(version)))
            for version, kind in self._kinds.items()
        }
        old, new = _KINDS[0].version, _KINDS[1].version
        missing = self._texts(old) - {item.digest for item in self._of(new)}
        assert await self._store.covered(old, new) == len(self._texts(old)) - len(missing)
        unfilled = await self._store.unfilled(old, new, 10)
        assert {known.digest for known in unfilled} == missing
        assert {make_digest(known.text) for known in unfilled} == missing

    async def _register(self, kind: VectorKind) -> None:
        is_known = kind.version in self._kinds
        try:
            await self._store.register(kind, at_most=_AT_MOST)
        except StoreFull:
            assert not is_known
            assert len(self._kinds) == _AT_MOST
        else:
            assert is_known or len(self._kinds) < _AT_MOST
            self._kinds[kind.version] = kind
            self._began.setdefault(kind.version, len(self._seen))

    async def _put(self, version: str, step: _Put) -> None:
        items = _items(step, len(self._seen))
        at = max(len(self._seen) - 1 - step.began, 0)
        refused = set(await self._store.put(version, items, self._seen[at]))
        if version not in self._kinds:
            assert refused == {item.digest for item in items}
            return
        late = {item.digest for item in items if self._deleted.get((version, item.digest), 0) > at}
        # What was begun before the version was may be refused: it was retired meanwhile.
        assert refused == late or at < self._began[version], step
        for item in items:
            if item.digest not in refused:
                self._items.setdefault((version, item.digest), item)

    async def _delete(self, version: str, digests: Sequence[ContentDigest]) -> None:
        there = [self._items.pop((version, digest), None) for digest in digests]
        assert await self._store.delete(version, digests) == sum(item is not None for item in there)
        if version in self._kinds:
            self._deleted.update({(version, digest): len(self._seen) for digest in digests})

    def _forget(self, version: str) -> None:
        self._kinds.pop(version, None)
        self._began.pop(version, None)
        self._canaries.pop(version, None)
        for of_digest in (self._items, self._deleted):
            for place in [place for place in of_digest if place[0] == version]:
                of_digest.pop(place, None)

    def _of(self, version: str) -> list[Item]:
        return [item for (whose, _), item in self._items.items() if whose == version]

    def _texts(self, version: str) -> set[ContentDigest]:
        return {item.digest for item in self._of(version) if item.text is not None}


def _items(step: _Put, number: int) -> list[Item]:
    return [
        Item(
            make_digest(text),
            f"{number} {step.version} {text} ".encode() * 3,
            text if step.with_text else None,
        )
        for text in step.texts
    ]
