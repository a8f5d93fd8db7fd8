"""A stream in blocks."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def blocks(stream: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield ``stream`` in lists of ``size``; the last may be shorter. Takes no more than it
    yields.
    """
    rest = iter(stream)
    while block := list(islice(rest, size)):
        yield block
