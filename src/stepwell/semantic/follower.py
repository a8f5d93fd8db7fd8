"""Keeps the semantic layer in step with the store: what others put there, what goes, what is said.

What this worker makes itself it learns at once; this is for the rest: other workers' entries within
a poll, and whatever the index lacks, at the start or after something of it was lost.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, assert_never

from stepwell.core.changes import Change, Invalidated, Judged, Lost, Replaced, SourceMoved
from stepwell.core.clock import Clock
from stepwell.core.entry import Arrived, Entry
from stepwell.core.errors import (
    CorruptEntry,
    EmbeddingError,
    IndexUnavailable,
    StepwellError,
    StoreError,
)
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, CacheKey, Position, Tier
from stepwell.core.ports import Arrivals, EventSink, Judgements
from stepwell.semantic.index.port import FollowedIndex
from stepwell.semantic.index.progress import Gap
from stepwell.semantic.layer import SemanticLayer

POLL_SECONDS = 0.25
_AT_ONCE = 200
_PAUSE_SECONDS = 1.0
"""After a failure; so long an embedder that starts is left in peace."""

_FIRST = Arrival(0)


class Listener(Protocol):
    """Hears of judgements; `Denials` and `Evidence`."""

    def load(self, judgements: Iterable[Judgement]) -> None:
        """Forget all, and take these, oldest first."""
        ...

    def note(self, judgement: Judgement) -> None:
        """Take one more."""
        ...


class FollowedStore(Arrivals, Judgements, Protocol):
    """What a store says of what came, and of what was said."""

    @property
    def tier(self) -> Tier:
        """What it is called."""
        ...

    async def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key``."""
        ...


class FeedReader(Protocol):
    """Who reads the feed, and calls `SemanticFollower.apply`; the exact layer."""

    async def catch_up(self) -> bool:
        """Read what changed; return whether what is held may be served."""
        ...

    def position(self) -> Position:
        """Return the position of the last change read."""
        ...


class SemanticFollower:
    """Follows a store. One event loop."""

    def __init__(
        self,
        layer: SemanticLayer,
        index: FollowedIndex,
        listeners: Sequence[Listener],
        store: FollowedStore,
        *,
        clock: Clock,
        events: EventSink,
        settle_seconds: float = 0.0,
    ) -> None:
        """Follow nothing yet.

        Args:
            layer: Learns what came.
            index: Where the points are.
            listeners: Hear what was said.
            store: What is followed.
            clock: The time.
            events: Hears of failures.
            settle_seconds: How long what came last is left to who stored it, where one adds a
                point for all.
        """
        self._layer = layer
        self._index = index
        self._listeners = listeners
        self._store = store
        self._clock = clock
        self._events = events
        self._settle_seconds = settle_seconds
        self._after = _FIRST
        self._closing: Gap | None = None
        """The gap that is closed by taking all that came since the first arrival."""
        self._knows_judgements = False
        self._heard: list[Judgement] = []
        """What was said while all that was said is being read."""
        self._is_current = asyncio.Event()
        self._feed: FeedReader | None = None
        self._following: asyncio.Task[None] | None = None

    def start(self, feed: FeedReader) -> None:
        """Begin to follow, in the background."""
        self._feed = feed
        self._following = asyncio.create_task(self._follow(feed))

    async def wait_until_current(self, timeout_seconds: float) -> bool:
        """Return whether all that was in the store has been taken by then, once."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._is_current.wait()
        except TimeoutError:
            return False

    async def aclose(self) -> None:
        """Stop; write down what only this worker has, so that the next start need not embed it."""
        if self._following is None or self._feed is None:
            return
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        self._following = None
        await self._index.flush(self._feed.position())

    def apply(self, change: Change) -> None:
        """Take one change of the feed, as `Follower.apply`."""
        match change:
            case Invalidated(position, selector):
                self._index.remove_where(selector, position)
            case Judged(_, judgement):
                if not self._knows_judgements:
                    self._heard.append(judgement)
                for listener in self._listeners:
                    listener.note(judgement)
            case Lost():
                # What has gone meanwhile is found out when it is to be served.
                self._after = _FIRST
                self._knows_judgements = False
            case Replaced() | SourceMoved():
                pass
            case _:
                assert_never(change)

    async def _follow(self, feed: FeedReader) -> None:
        while True:
            try:
                more = await self._step(feed)
            except (StoreError, EmbeddingError, IndexUnavailable) as error:
                self._events.emit(Degraded(self._component_of(error), str(error)))
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                await asyncio.sleep(0 if more else POLL_SECONDS)

    def _component_of(self, error: StepwellError) -> str:
        match error:
            case EmbeddingError():
                return "semantic.embedder"
            case IndexUnavailable():
                return "semantic.index"
            case _:
                return f"store.{self._store.tier}"

    async def _step(self, feed: FeedReader) -> bool:
        """Take what came next; return whether there may be more."""
        if not self._knows_judgements:
            await self._learn_judgements()
        await feed.catch_up()
        if not await self._index.maintain(feed.position()):
            self._is_current.set()
            return False
        return await self._take()

    async def _take(self) -> bool:
        if self._index.gap is not self._closing:
            self._closing, self._after = self._index.gap, _FIRST
        closing, after = self._closing, self._after
        arrived, last = await self._store.arrived(after, _AT_ONCE)
        more = len(arrived) == _AT_ONCE
        if arrived and not more:
            await asyncio.sleep(self._settle_seconds)
        await self._layer.learn_all(await self._missing(arrived))
        if self._after == after:  # else the feed was lost meanwhile
            self._after = last
            if not more:
                self._is_current.set()
            if not more and closing is not None:
                self._index.close_gap(closing)
                self._closing = self._index.gap
        return more

    async def _missing(self, arrived: Sequence[Arrived]) -> list[Entry]:
        """Return the entries that the index has not, and still can use."""
        now = self._clock.now()
        found = []
        for one in await self._index.lacking([one for one in arrived if one.expires_at > now]):
            try:
                entry = await self._store.get(one.key)
            except CorruptEntry:
                continue  # The store has counted it.
            if entry is not None:
                found.append(entry)
        return found

    async def _learn_judgements(self) -> None:
        self._heard.clear()
        said = await self._store.judgements()
        # What was said while they were read may be among them, or not: then it comes last.
        for listener in self._listeners:
            listener.load([*said, *self._heard])
        self._heard.clear()
        self._knows_judgements = True
