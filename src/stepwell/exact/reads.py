"""Reads of the store that are under way, and which of them have been overtaken."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stepwell.core.names import CacheKey


@dataclass(slots=True, eq=False)
class Read:
    """One of them."""

    is_overtaken: bool = False
    """The entry was replaced meanwhile: what comes may be the older one, and is not to be kept."""


class Reads:
    """One event loop; not thread-safe. Holds nothing but what is under way."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: dict[CacheKey, set[Read]] = {}

    @contextmanager
    def of(self, key: CacheKey) -> Iterator[Read]:
        """Be one, while inside."""
        read = Read()
        self._under_way.setdefault(key, set()).add(read)
        try:
            yield read
        finally:
            others = self._under_way[key]
            others.discard(read)
            if not others:
                del self._under_way[key]

    def overtake(self, key: CacheKey) -> None:
        """Note that the entry under ``key`` was replaced."""
        for read in self._under_way.get(key, ()):
            read.is_overtaken = True
