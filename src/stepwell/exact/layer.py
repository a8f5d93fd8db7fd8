"""The exact layer: this worker's memory over a store that all workers share.

The store is the truth; memory is a derived view that follows the store's change feed. An entry is
served from memory only while the feed has been read to its end, so an invalidation that has been
acknowledged anywhere is obeyed here at once.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol, assert_never, runtime_checkable

from stepwell.core.changes import Change, Invalidated, Judged, Lost, Replaced, SourceMoved
from stepwell.core.entry import UNKNOWN_VALUE, Entry, Selector, SourceValue
from stepwell.core.errors import CorruptEntry, CutOff, StoreError
from stepwell.core.events import Degraded
from stepwell.core.names import EVERYONE, CacheKey, Namespace, Position, Tier
from stepwell.core.ports import EventSink, Feed, Follower, Store
from stepwell.exact.uses import Uses

RECENT_INVALIDATIONS = 1_000
"""How many invalidations are remembered to refuse answers that were on their way."""


class Memory(Protocol):
    """A worker's own tier. Synchronous; see `stepwell.stores.memory.MemoryStore`."""

    def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key`` unless it is past ``keep_until``."""
        ...

    def __contains__(self, key: CacheKey) -> bool:
        """Return whether it holds an entry under ``key``."""
        ...

    def put(self, entry: Entry) -> bool:
        """Keep ``entry``; ``False`` if it is too large."""
        ...

    def apply(self, change: Change) -> None:
        """Do what a change of the store asks."""
        ...

    def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means; return how many."""
        ...

    def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means."""
        ...


@runtime_checkable
class SupportsTouch(Protocol):
    """A store that wants to know of uses it did not see, so that it keeps what is hot."""

    def touch(self, uses: Mapping[CacheKey, int]) -> None:
        """Note how often entries were used since the last call. Must not raise or block."""
        ...


class ExactLayer:
    """Finds and keeps entries by their cache key.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        memory: Memory,
        store: Store,
        feed: Feed,
        *,
        events: EventSink,
        followers: Sequence[Follower] = (),
    ) -> None:
        """Put ``memory`` over ``store``.

        Args:
            memory: This worker's own tier.
            store: What the workers share. Told of uses if it is a `SupportsTouch`.
            feed: The store's change feed.
            events: Hears of every failure of the store.
            followers: Other views that hear of every change this layer reads.
        """
        self._followers = followers
        self._memory = memory
        self._store = store
        self._feed = feed
        self._events = events
        self._sources: dict[tuple[Namespace, str], str] = {}
        self._knows_sources = True
        """Whether ``_sources`` follows the feed; if not, nobody can say whether what depends on a
        source is fresh."""
        self._uses = Uses(store.touch) if isinstance(store, SupportsTouch) else None
        self._recent: deque[Invalidated] = deque()
        self._forgotten = feed.position()
        """Invalidations up to here are not in ``_recent``; no answer as of before can be judged."""

    def peek(self, key: CacheKey) -> Entry | None:
        """Return the entry this worker holds, without waiting for anything.

        ``None`` also while a change has not been read yet; `lookup` reads it.
        Cost: about a microsecond.
        """
        if self._feed.behind():
            return None
        return self._recall(key)

    async def lookup(self, key: CacheKey) -> tuple[Entry, Tier] | None:
        """Return the entry under ``key`` and the tier that had it, fresh or not.

        An entry found in the store is kept in memory too. A store that fails counts as a store
        without the entry, and so does one that cannot say what the sources are. While the store's
        feed cannot be heard, nothing is found in memory either.
        Cost: memory, then at most one read of the store.
        """
        if not await self.catch_up():
            return None
        if (held := self._recall(key)) is not None:
            return held, Tier.MEMORY
        if not self._knows_sources:
            return None
        return await self._fetch(key)

    async def _fetch(self, key: CacheKey) -> tuple[Entry, Tier] | None:
        """Read an entry from the store, and keep it in memory too."""
        if self._uses is not None:
            self._uses.tell()
        as_of = self._feed.position()
        entry = await self._read_store(key)
        # What was invalidated while the read was under way must not come back through it, and
        # what was made meanwhile is newer.
        if not await self.catch_up():
            return None
        if (held := self._recall(key)) is not None:
            return held, Tier.MEMORY
        if entry is None or not self._knows_sources or self._revoked(entry, as_of):
            return None
        self._memory.put(entry)
        if self._uses is not None:
            self._uses.note(key)
        return entry, self._store.tier

    def _recall(self, key: CacheKey) -> Entry | None:
        entry = self._memory.get(key)
        if entry is not None and self._uses is not None:
            self._uses.note(key)
        return entry

    async def _read_store(self, key: CacheKey) -> Entry | None:
        try:
            return await self._store.get(key)
        except CorruptEntry:
            return None  # The store has counted it.
        except StoreError as error:
            self._degraded(error)
            return None

    async def catch_up(self) -> bool:
        """Read what changed in the store and make memory agree. Cheap when nothing did.

        Returns:
            Whether what is held may be served; not while the feed cannot be heard.
        """
        if self._feed.behind():
            # From here on the feed counts as read, so no other task may run before all is applied.
            try:
                changes = await self._read_feed()
            except CutOff:
                return False  # Whoever follows the feed tells of it.
            for change in changes:
                self._memory.apply(change)
                self._apply(change)
                for follower in self._followers:
                    follower.apply(change)
        await self._learn_sources()
        return True

    async def _read_feed(self) -> Sequence[Change]:
        try:
            return await self._feed.read()
        except CutOff:
            raise
        except StoreError as error:
            # Nobody can say what changed: forget all rather than serve what is gone.
            self._degraded(error)
            return (Lost(self._feed.position()),)

    async def load_sources(self) -> None:
        """Read the current values of all sources. Once, before the first request.

        While they cannot be read, every lookup tries again, and nothing that depends on one is
        fresh.
        """
        self._knows_sources = False
        await self._learn_sources()

    async def _learn_sources(self) -> None:
        while not self._knows_sources:
            position = self._feed.position()
            try:
                values = await self._feed.source_values()
            except StoreError as error:
                self._degraded(error)
                return
            # Another task may have read on meanwhile, and applied what these values lack.
            if position == self._feed.position():
                self._sources = values
                self._knows_sources = True

    def source_value(self, namespace: Namespace, name: str) -> str | None:
        """Return the current value of a named source, or ``None`` if nobody has set one."""
        sources = self._sources
        return sources.get((namespace, name)) or sources.get((EVERYONE, name))

    def source_to_judge_by(self, namespace: Namespace, name: str) -> str | None:
        """As `source_value`; while that is not known, a value that no answer is made under."""
        return self.source_value(namespace, name) if self._knows_sources else UNKNOWN_VALUE

    async def move_source(self, namespace: Namespace, source: SourceValue) -> bool:
        """Set the current value of a named source, for every worker.

        Returns:
            Whether that changed it. Entries made under another value are stale from now on.

        Raises:
            StoreError: The value could not be made known.
        """
        moved = await self._feed.move_source(namespace, source.name, source.value)
        await self.catch_up()
        return moved

    def position(self) -> Position:
        """Return where in the change feed this worker is: what an answer asked for now is as of."""
        return self._feed.position()

    def last_invalidation(self) -> Position:
        """Return a position that no invalidation read so far is later than.

        An answer as of an earlier one may be of what has since been invalidated.
        """
        return self._recent[-1].position if self._recent else self._forgotten

    def keep(self, entry: Entry) -> bool:
        """Keep a new entry in memory; ``False`` if it was invalidated while it was being made."""
        if self._revoked(entry, entry.as_of):
            return False
        self._memory.put(entry)
        return True

    def holds(self, key: CacheKey) -> bool:
        """Return whether this worker holds an entry under ``key``; that is no use of it."""
        return key in self._memory

    async def share(self, entry: Entry) -> None:
        """Put a new entry where other workers, and the next start, find it."""
        try:
            stored = await self._store.put(entry)
        except StoreError as error:
            self._degraded(error)
            return
        if not stored:
            self._memory.invalidate(Selector(key=entry.key))

    async def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means.

        Raises:
            StoreError: The store did not say.
        """
        return await self._store.count(selector)

    async def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means, in every worker; return how many.

        Raises:
            StoreError: It could not be done everywhere. Unlike a read, a removal that did not
                happen must be heard: somebody asked for this to be forgotten.
        """
        removed = await self._store.invalidate(selector)
        await self.catch_up()
        return removed

    def _apply(self, change: Change) -> None:
        match change:
            case Invalidated():
                self._recent.append(change)
                if len(self._recent) > RECENT_INVALIDATIONS:
                    self._forgotten = self._recent.popleft().position
            case SourceMoved(_, namespace, name, value):
                if namespace == EVERYONE:
                    for own in [key for key in self._sources if key[1] == name]:
                        del self._sources[own]
                self._sources[namespace, name] = value
            case Lost():
                self._recent.clear()
                self._forgotten = change.position
                self._knows_sources = False
            case Replaced() | Judged():
                pass
            case _:
                assert_never(change)

    def _revoked(self, entry: Entry, as_of: Position) -> bool:
        """Return whether ``entry``, read or asked for as of a position, was invalidated since."""
        return as_of < self._forgotten or any(
            change.position > as_of and change.selector.matches(entry) for change in self._recent
        )

    def _degraded(self, error: StoreError) -> None:
        self._events.emit(Degraded(f"store.{self._store.tier}", str(error)))
