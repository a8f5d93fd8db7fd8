"""The truth of a process that shares with nobody: memory is all there is."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from stepwell.core.changes import Change, Invalidated, Judged, SourceMoved
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import EVERYONE, Arrival, CacheKey, Namespace, PairId, Position, Tier

MAX_JUDGEMENTS = 10_000
"""Of more, the oldest *right* is forgotten first."""


MAX_ARRIVALS = 100_000
"""Remembered; whoever follows them polls several times a second."""


class Holder(Protocol):
    """The part of the memory tier this needs."""

    def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key``."""
        ...

    def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means; return how many."""
        ...

    def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means."""
        ...


class Alone:
    """A `Store` without a place of its own, and the `Feed` of its changes.

    It holds no entry, only the changes that have not been read, and the order in which entries
    came. Never fails, never waits. One event loop; not thread-safe.
    """

    def __init__(self, memory: Holder) -> None:
        self._memory = memory
        self._unread: list[Change] = []
        self._position = 0
        self._sources: dict[tuple[Namespace, str], str] = {}
        self._came = 0
        self._arrivals: list[tuple[Arrival, Arrived]] = []
        self._judgements: dict[PairId, Judgement] = {}

    @property
    def tier(self) -> Tier:
        """As `Store.tier`."""
        return Tier.MEMORY

    async def get(self, key: CacheKey) -> Entry | None:
        """Return what memory has under ``key``: what it has not, nobody has."""
        return self._memory.get(key)

    async def put(self, entry: Entry) -> bool:
        """Note that an entry came; memory has it."""
        if entry.phrasing is not None:
            self._came += 1
            self._arrivals.append((Arrival(self._came), Arrived(entry.key, entry.expires_at)))
            if len(self._arrivals) > MAX_ARRIVALS:
                del self._arrivals[: MAX_ARRIVALS // 2]
        return True

    async def judge(self, judgement: Judgement) -> None:
        """Keep a judgement for as long as the process lives."""
        self._judgements.pop(judgement.pair, None)
        if len(self._judgements) >= MAX_JUDGEMENTS:
            del self._judgements[self._least_needed()]
        self._judgements[judgement.pair] = judgement
        self._unread.append(Judged(self._next(), judgement))

    def _least_needed(self) -> PairId:
        """Return the pair of the oldest right judgement, or of the oldest: a wrong one counts."""
        rights = (
            pair
            for pair, judgement in self._judgements.items()
            if judgement.verdict is Verdict.RIGHT
        )
        return next(rights, next(iter(self._judgements)))

    async def judgements(self) -> Sequence[Judgement]:
        """Return all that are kept, oldest first."""
        return list(self._judgements.values())

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:
        """Return what came to memory after ``after``; some of it may have left again."""
        first = bisect_right(self._arrivals, after, key=lambda came: came[0])
        found = self._arrivals[first : first + at_most]
        return [arrived for _, arrived in found], found[-1][0] if found else after

    async def count(self, selector: Selector) -> int:
        """Return how many entries in memory ``selector`` means."""
        return self._memory.count(selector)

    async def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means, and those on their way."""
        self._unread.append(Invalidated(self._next(), selector))
        return self._memory.invalidate(selector)

    async def revoke(self, selector: Selector) -> None:
        """As `invalidate`: memory has a bound, and finds a tag at once."""
        await self.invalidate(selector)

    async def aclose(self) -> None:
        """Do nothing."""

    def behind(self) -> bool:
        """Return whether a change has not been read yet."""
        return bool(self._unread)

    def position(self) -> Position:
        """Return the position of the last change read."""
        return Position(self._position - len(self._unread))

    async def read(self) -> Sequence[Change]:
        """Return the changes since the last call."""
        changes, self._unread = self._unread, []
        return changes

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        """Set the current value of a named source; return whether that changed it."""
        others = [own for own in self._sources if own[1] == name and own[0] != EVERYONE]
        if namespace != EVERYONE:
            others = []
        if self._sources.get((namespace, name)) == value and not others:
            return False
        for own in others:
            del self._sources[own]
        self._sources[namespace, name] = value
        self._unread.append(SourceMoved(self._next(), namespace, name, value))
        return True

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        """Return the current value of every source."""
        return dict(self._sources)

    def _next(self) -> Position:
        self._position += 1
        return Position(self._position)
