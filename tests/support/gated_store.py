"""A store that several workers share, each step of which waits for its turn.

It does what the real ones do, in the same steps: `Shelf.news_at_once` as the disk store, whose
changes are known to all with the commit that makes them; otherwise as the Redis store, where each
worker hears of them when its feed brings them, an invalidation is an epoch before anything is
removed, and what was replaced is told after it was written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwell.core.changes import Change, Invalidated, Lost, Replaced, SourceMoved
from stepwell.core.entry import Entry, Selector
from stepwell.core.errors import CutOff
from stepwell.core.names import CacheKey, Namespace, Position, Tier
from support.interleavings import gate


@dataclass
class Shelf:
    """What all share."""

    news_at_once: bool
    entries: dict[CacheKey, Entry] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """All of them, so that a change's position is its place, from 1."""
    sources: dict[tuple[Namespace, str], str] = field(default_factory=dict)
    handles: list["Handle"] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """Append a change, whose position must be the next."""
        assert change.position == self.next_position()
        self.changes.append(change)
        if self.news_at_once:
            for handle in self.handles:
                handle.hear()

    def next_position(self) -> Position:
        """Return the next change's."""
        return Position(len(self.changes) + 1)

    def is_gone(self, entry: Entry, heard: int) -> bool:
        """Return whether one of the first changes says that an entry is gone."""
        return any(
            isinstance(change, Invalidated)
            and change.position > entry.as_of
            and change.selector.matches(entry)
            for change in self.changes[:heard]
        )

    def visible(self, key: CacheKey) -> Entry | None:
        """Return what anybody who has heard all must find."""
        entry = self.entries.get(key)
        return None if entry is None or self.is_gone(entry, len(self.changes)) else entry


class Handle:
    """One worker's `Store` and `Feed` on a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.heard = len(shelf.changes)
        self._read = self.heard
        self.cut_off = False
        shelf.handles.append(self)

    @property
    def tier(self) -> Tier:
        return Tier.DISK

    def hear(self) -> None:
        """Take what the feed brings; nothing while it is cut off."""
        if not self.cut_off:
            self.heard = len(self._shelf.changes)

    async def _hear_own(self) -> None:
        """Wait until what this worker did has come back to it."""
        if not self._shelf.news_at_once:
            await gate()
            self.heard = max(self.heard, len(self._shelf.changes))

    async def get(self, key: CacheKey) -> Entry | None:
        await gate()
        found = self._shelf.entries.get(key)
        await gate()
        if found is None or self._shelf.is_gone(found, self.heard):
            return None
        return found

    async def put(self, entry: Entry) -> bool:
        shelf = self._shelf
        if not shelf.news_at_once and shelf.is_gone(entry, self.heard):
            return False
        await gate()
        if shelf.news_at_once and shelf.is_gone(entry, len(shelf.changes)):
            return False
        was_there = entry.key in shelf.entries
        shelf.entries[entry.key] = entry
        if was_there:
            if not shelf.news_at_once:
                await gate()
            shelf.add(Replaced(shelf.next_position(), entry.key))
            await self._hear_own()
        return True

    async def count(self, selector: Selector) -> int:
        raise NotImplementedError

    async def invalidate(self, selector: Selector) -> int:
        shelf = self._shelf
        change = Invalidated(shelf.next_position(), selector)
        shelf.add(change)
        await self._hear_own()
        meant = [
            entry
            for entry in shelf.entries.values()
            if selector.matches(entry) and entry.as_of < change.position
        ]
        for entry in meant:
            if not shelf.news_at_once:
                await gate()
            if shelf.entries.get(entry.key) is entry:
                del shelf.entries[entry.key]
        return len(meant)

    async def revoke(self, selector: Selector) -> None:
        await gate()
        self._shelf.add(Invalidated(self._shelf.next_position(), selector))
        await self._hear_own()

    async def aclose(self) -> None: ...

    def behind(self) -> bool:
        return self.cut_off or self._read < self.heard

    def position(self) -> Position:
        return Position(self._read)

    async def read(self) -> Sequence[Change]:
        if self.cut_off:
            raise CutOff("not heard")
        if self._shelf.news_at_once:
            await gate()  # The disk store reads a file; the Redis store has what it heard.
        changes = self._shelf.changes[self._read : self.heard]
        self._read = self.heard
        return changes

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        self._shelf.sources[namespace, name] = value
        self._shelf.add(SourceMoved(self._shelf.next_position(), namespace, name, value))
        await self._hear_own()
        return True

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        await gate()
        return dict(self._shelf.sources)

    async def lose(self) -> None:
        """Fall off the feed."""
        self._shelf.add(Lost(self._shelf.next_position()))
        await gate()
        self.hear()

    async def be_cut_off(self) -> None:
        """Hear nothing for a while, then all that was missed."""
        self.cut_off = True
        await gate()
        self.cut_off = False
        self.hear()

    async def follow(self) -> None:
        """Hear what has changed by now."""
        self.hear()
