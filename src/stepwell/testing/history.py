"""What several workers did with one store, and whether it could have been.

Each operation is written down with when it began and ended, on one clock for all. An operation took
effect at some moment in between; `check` only complains of what no choice of moments explains.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SLOWEST_SECONDS = 10.0
"""No operation takes longer. Bounds what is looked through."""


@dataclass(frozen=True, slots=True)
class Put:
    """A worker kept an answer, and put it into the store."""

    worker: int
    key: str
    tags: tuple[str, ...]
    version: int
    """No other put has it."""
    as_of: int
    """Position of the feed, as far as the worker had read it when it began."""
    began: float
    ended: float
    stored: bool | None
    """``False``: refused, ``None``: nobody knows."""


@dataclass(frozen=True, slots=True)
class Get:
    """A worker asked for an answer."""

    worker: int
    key: str
    version: int | None
    """``None``: there was none."""
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Removal:
    """A worker invalidated a key or a tag."""

    worker: int
    key: str | None
    tag: str | None
    after: int
    """Its own position in the feed is above this."""
    until: int | None
    """And at most this, if it is known."""
    began: float
    ended: float
    done: bool
    """``False``: nobody knows."""

    def means(self, put: Put) -> bool:
        """Return whether it means the entry of ``put``."""
        return self.key == put.key if self.tag is None else self.tag in put.tags

    def may_outrun(self, put: Put) -> bool:
        """Return whether it may have come after the question behind ``put``."""
        return self.means(put) and (self.until is None or self.until > put.as_of)

    def outran(self, put: Put) -> bool:
        """Return whether it came after the question behind ``put`` for sure."""
        later = self.began >= put.began or self.after >= put.as_of
        return self.done and self.means(put) and later


@dataclass(slots=True)
class Findings:
    """What `check` found."""

    lost: list[Get] = field(default_factory=list)
    """Nothing was there, though an answer had been stored and nothing had made it go."""
    resurrected: list[Get] = field(default_factory=list)
    """An answer that had been invalidated."""
    outdated: list[Get] = field(default_factory=list)
    """An answer that had been replaced."""
    obeyed_after_seconds: float = 0.0
    """The longest that an answer was still found by another worker than the one that had
    invalidated it."""


def check(
    puts: Iterable[Put], gets: Iterable[Get], removals: Iterable[Removal], *, lag_seconds: float
) -> Findings:
    """Say what cannot have been.

    Args:
        puts: All of them.
        gets: Those whose store answered.
        removals: All of them.
        lag_seconds: How long after an invalidation, or a put, has returned another worker may still
            have a copy in memory. Its own worker obeys at once.
    """
    checker = _Checker(puts, removals, lag_seconds)
    for get in gets:
        checker.check(get)
    return checker.findings


class _Checker:
    def __init__(
        self, puts: Iterable[Put], removals: Iterable[Removal], lag_seconds: float
    ) -> None:
        self.findings = Findings()
        self._lag_seconds = lag_seconds
        self._puts: dict[str, list[Put]] = defaultdict(list)
        self._by_version: dict[int, Put] = {}
        self._removals: dict[str, list[Removal]] = defaultdict(list)
        """In order of their beginning, by what they name."""
        for put in sorted(puts, key=lambda put: put.ended):
            self._puts[put.key].append(put)
            self._by_version[put.version] = put
        for removal in sorted(removals, key=lambda removal: removal.began):
            self._removals[_name(removal)].append(removal)

    def check(self, get: Get) -> None:
        if get.version is None:
            if self._is_lost(get):
                self.findings.lost.append(get)
            return
        put = self._by_version[get.version]
        for removal in self._removals_of(put):
            if removal.ended < get.began and removal.outran(put):
                self._note_late(get, removal)
        if self._is_outdated(get, put):
            self.findings.outdated.append(get)

    def _note_late(self, get: Get, removal: Removal) -> None:
        late_seconds = get.began - removal.ended
        self.findings.obeyed_after_seconds = max(self.findings.obeyed_after_seconds, late_seconds)
        if late_seconds > self._lag(get.worker, removal.worker):
            self.findings.resurrected.append(get)

    def _lag(self, worker: int, other: int) -> float:
        return 0.0 if worker == other else self._lag_seconds

    def _is_lost(self, get: Get) -> bool:
        """Return whether the last put before can still be there, whatever was in its way."""
        puts = self._puts[get.key]
        before = puts[: bisect_left(puts, get.began, key=lambda put: put.ended)]
        last = next((put for put in reversed(before) if put.stored), None)
        if last is None:
            return False
        # One that was written over it may be what was made to go.
        there = [put for put in puts if put.ended >= last.began and put.began < get.ended]
        return not any(
            removal.began < get.ended and removal.may_outrun(put)
            for put in there
            if put.stored is not False
            for removal in self._removals_of(put)
        )

    def _is_outdated(self, get: Get, put: Put) -> bool:
        return bool(put.stored) and any(
            other.stored
            and other.began > put.ended
            and other.ended + self._lag(get.worker, other.worker) < get.began
            for other in self._puts[get.key]
        )

    def _removals_of(self, put: Put) -> Iterator[Removal]:
        """Yield the removals that mean ``put`` and did not begin too long before it."""
        for name in (f"key {put.key}", *[f"tag {tag}" for tag in put.tags]):
            removals = self._removals[name]
            first = bisect_left(
                removals, put.began - SLOWEST_SECONDS, key=lambda removal: removal.began
            )
            yield from removals[first:]


def _name(removal: Removal) -> str:
    return f"key {removal.key}" if removal.tag is None else f"tag {removal.tag}"
