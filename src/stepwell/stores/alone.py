"""The truth of a process that shares with nobody: memory is all there is."""

from collections.abc import Sequence
from typing import Protocol

from stepwell.core.changes import Change, Invalidated, Judged, SourceMoved
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.judgement import Judgement
from stepwell.core.names import EVERYONE, Arrival, CacheKey, Namespace, PairId, Position

MAX_JUDGEMENTS = 10_000
"""The oldest is forgotten first."""


class Countable(Protocol):
    """The part of the memory tier this needs."""

    def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means; return how many."""
        ...

    def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means."""
        ...


class Alone:
    """A `Store` without a place of its own, and the `Feed` of its changes.

    It holds no entry (memory has been asked before it) and no more than the changes that have not
    been read. Never fails, never waits. One event loop; not thread-safe.
    """

    def __init__(self, memory: Countable) -> None:
        self._memory = memory
        self._unread: list[Change] = []
        self._position = 0
        self._sources: dict[tuple[Namespace, str], str] = {}
        self._judgements: dict[PairId, Judgement] = {}

    async def get(self, key: CacheKey) -> Entry | None:  # noqa: ARG002  (the port's signature)
        """Return ``None``: what memory has not, nobody has."""
        return None

    async def put(self, entry: Entry) -> bool:  # noqa: ARG002  (the port's signature)
        """Do nothing; memory has it."""
        return True

    async def judge(self, judgement: Judgement) -> None:
        """Keep a judgement for as long as the process lives."""
        self._judgements.pop(judgement.pair, None)
        if len(self._judgements) >= MAX_JUDGEMENTS:
            del self._judgements[next(iter(self._judgements))]
        self._judgements[judgement.pair] = judgement
        self._unread.append(Judged(self._next(), judgement))

    async def judgements(self) -> Sequence[Judgement]:
        """Return all that are kept, oldest first."""
        return list(self._judgements.values())

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:  # noqa: ARG002  (the port's signature)
        """Return nothing: nobody else puts anything here."""
        return (), after

    async def count(self, selector: Selector) -> int:
        """Return how many entries in memory ``selector`` means."""
        return self._memory.count(selector)

    async def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means, and those on their way."""
        self._unread.append(Invalidated(self._next(), selector))
        return self._memory.invalidate(selector)

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
