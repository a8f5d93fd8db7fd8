"""What every store must do, as checks to run on your own.

    def test_store() -> None:
        check_store(make_store)

Each check runs many examples, each on an event loop of its own and with a new store; Hypothesis
shrinks what fails. They are plain functions: call them from a synchronous test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.changes import Change, Invalidated, Replaced, SourceMoved
from stepwell.core.entry import Entry, Selector
from stepwell.core.names import CacheKey, Namespace, Position
from stepwell.core.ports import Feed, Store
from stepwell.testing.entries import make_key, make_namespace
from stepwell.testing.strategies import entries, selectors

_KEYS = [make_key(name) for name in "abc"]
_NAMESPACES = [make_namespace(name) for name in "ab"]
_TEXTS = ["x", "y", "天气"]
_YEAR_2096 = 4e9

_keys = st.sampled_from(_KEYS)
_namespaces = st.sampled_from(_NAMESPACES)
_texts = st.sampled_from(_TEXTS)


class FollowedStore(Store, Feed, Protocol):
    """A store and its change feed."""


@dataclass(frozen=True)
class _Put:
    entry: Entry
    asked: int
    """The upstream was asked so many steps ago."""


@dataclass(frozen=True)
class _Get:
    key: CacheKey


@dataclass(frozen=True)
class _Count:
    selector: Selector


@dataclass(frozen=True)
class _Invalidate:
    selector: Selector


@dataclass(frozen=True)
class _Revoke:
    selector: Selector


@dataclass(frozen=True)
class _Move:
    namespace: Namespace
    name: str
    value: str


_Step = _Put | _Get | _Count | _Invalidate | _Revoke

_entries = entries(keys=_keys, namespaces=_namespaces, texts=_texts, earliest=_YEAR_2096)
_selectors = selectors(keys=_keys, namespaces=_namespaces, texts=_texts)
_puts = st.builds(_Put, _entries, st.integers(0, 4))
_invalidations = st.builds(_Invalidate, _selectors)
_steps = st.lists(
    _puts
    | st.builds(_Get, _keys)
    | st.builds(_Count, _selectors)
    | _invalidations
    | st.builds(_Revoke, _selectors),
    max_size=20,
)
_moves = st.builds(_Move, _namespaces, _texts, _texts)


def check_store(
    make_store: Callable[[], Awaitable[FollowedStore]], *, max_examples: int = 50
) -> None:
    """Check that a store agrees with a dict after any sequence of calls.

    Entries whose upstream was asked before an invalidation that means them must be refused.

    Args:
        make_store: Returns a new, empty store of at least a megabyte.
        max_examples: How many sequences to try.
    """

    @settings(max_examples=max_examples, deadline=None)
    @given(_steps)
    def agrees(steps: list[_Step]) -> None:
        asyncio.run(_check_store(make_store, steps))

    agrees()


def check_feed(
    make_handles: Callable[[], Awaitable[tuple[FollowedStore, FollowedStore]]],
    *,
    max_examples: int = 50,
    within_seconds: float = 0.0,
) -> None:
    """Check that one handle of a store follows what is done through another.

    Args:
        make_handles: Returns two handles, as two worker processes would have, on one new,
            empty store.
        max_examples: How many sequences to try.
        within_seconds: How long a change may take to come to the other handle.
    """

    @settings(max_examples=max_examples, deadline=None)
    @given(st.lists(_puts | _invalidations | _moves, max_size=12))
    def follows(steps: list[_Put | _Invalidate | _Move]) -> None:
        asyncio.run(_check_feed(make_handles, steps, within_seconds))

    follows()


async def _check_store(
    make_store: Callable[[], Awaitable[FollowedStore]], steps: Sequence[_Step]
) -> None:
    store = await make_store()
    try:
        model = _Model(store)
        for step in steps:
            await model.follow(step)
        for key in _KEYS:
            await model.follow(_Get(key))
    finally:
        await store.aclose()
        await store.aclose()


class _Model:
    """A dict and a list that know what the store must say."""

    def __init__(self, store: FollowedStore) -> None:
        self._store = store
        self._entries: dict[CacheKey, Entry] = {}
        self._invalidated: list[Invalidated] = []
        self._positions = [store.position()]

    async def follow(self, step: _Step) -> None:
        match step:
            case _Put(entry, asked):
                await self._put(entry, self._positions[-1 - asked :][0])
            case _Get(key):
                assert await self._store.get(key) == self._entries.get(key), f"get {key.hex()}"
            case _Count(selector):
                assert await self._store.count(selector) == len(self._meant(selector)), selector
            case _Invalidate(selector):
                await self._invalidate(selector)
            case _Revoke(selector):
                await self._store.revoke(selector)
                await self._note_invalidated(selector)
            case _:
                assert_never(step)
        await self._store.read()
        self._positions.append(self._store.position())

    async def _put(self, entry: Entry, as_of: Position) -> None:
        entry = replace(entry, as_of=as_of)
        outrun = any(
            change.position > as_of and change.selector.matches(entry)
            for change in self._invalidated
        )
        assert await self._store.put(entry) is not outrun, f"put {entry}"
        if not outrun:
            self._entries[entry.key] = entry

    async def _invalidate(self, selector: Selector) -> None:
        meant = self._meant(selector)
        assert await self._store.invalidate(selector) == len(meant), f"invalidate {selector}"
        await self._note_invalidated(selector)

    async def _note_invalidated(self, selector: Selector) -> None:
        position = Position(self._positions[-1] + 1)
        assert list(await self._store.read()) == [Invalidated(position, selector)]
        self._invalidated.append(Invalidated(position, selector))
        for key in self._meant(selector):
            del self._entries[key]

    def _meant(self, selector: Selector) -> list[CacheKey]:
        return [key for key, entry in self._entries.items() if selector.matches(entry)]


async def _check_feed(
    make_handles: Callable[[], Awaitable[tuple[FollowedStore, FollowedStore]]],
    steps: Sequence[_Put | _Invalidate | _Move],
    within_seconds: float,
) -> None:
    writer, reader = await make_handles()
    try:
        keys: set[CacheKey] = set()
        sources: dict[tuple[Namespace, str], str] = {}
        assert not reader.behind(), "behind a store in which nothing happened"
        for step in steps:
            expected = await _act(writer, step, keys, sources)
            for handle in (reader, writer):
                await _check_read(handle, expected, within_seconds)
        assert await writer.source_values() == sources
        assert await reader.source_values() == sources
    finally:
        await writer.aclose()
        await reader.aclose()


async def _act(
    writer: FollowedStore,
    step: _Put | _Invalidate | _Move,
    keys: set[CacheKey],
    sources: dict[tuple[Namespace, str], str],
) -> list[Change]:
    """Do ``step``, note what it does in ``keys`` and ``sources``, return the changes it makes."""
    position = Position(writer.position() + 1)
    match step:
        case _Put(entry):
            assert await writer.put(replace(entry, as_of=writer.position())), "refused"
            known = entry.key in keys
            keys.add(entry.key)
            return [Replaced(position, entry.key)] if known else []
        case _Invalidate(selector):
            # Which keys remain is `check_store`'s matter; here all go.
            await writer.invalidate(selector)
            await writer.invalidate(Selector())
            keys.clear()
            return [
                Invalidated(position, selector),
                Invalidated(Position(position + 1), Selector()),
            ]
        case _Move(namespace, name, value):
            moved = sources.get((namespace, name)) != value
            assert await writer.move_source(namespace, name, value) is moved, step
            sources[namespace, name] = value
            return [SourceMoved(position, namespace, name, value)] if moved else []
        case _:
            assert_never(step)


async def _check_read(handle: FollowedStore, expected: list[Change], within_seconds: float) -> None:
    came: list[Change] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_seconds
    while len(came) < len(expected) and loop.time() < deadline:
        await asyncio.sleep(_PAUSE_SECONDS)
        came += await handle.read()
    assert handle.behind() is (len(came) < len(expected)), f"behind() before {expected}"
    came += await handle.read()
    assert came == expected
    assert list(await handle.read()) == [], "the same changes twice"
    assert not handle.behind(), "behind() after read()"


_PAUSE_SECONDS = 0.002
