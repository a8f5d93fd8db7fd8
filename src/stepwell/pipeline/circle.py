"""Others that may be asked the same at the same moment: who makes the call, and who reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from stepwell.core.names import CacheKey
from stepwell.pipeline.leg import BorrowedLeg


class Followed(Enum):
    """How following another's flight went."""

    TO_THE_END = auto()
    """The flight has ended."""
    NOT_THERE = auto()
    """The leader has landed, or not yet begun; claim again."""
    FAILED = auto()
    """The leader's call failed, before anything was handed on."""
    LOST = auto()
    """The leader is gone, or not heard; who claims next goes on where the flight is."""
    UNREACHED = auto()
    """The leader could not be asked."""
    OUTDATED = auto()
    """The leader asked before an invalidation, or under another value of a source."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The right to make the call."""

    release: Callable[[], None]
    """Gives it up; does not wait."""
    may_be_made: bool = True
    """Whether another may have stored an answer since the layers were asked."""


class Leader(Protocol):
    """Another that has the right."""

    async def follow(self, leg: BorrowedLeg, *, patience_seconds: float) -> Followed:
        """Write its reply into ``leg``, as it comes.

        One that has not begun after ``patience_seconds`` counts as not there.

        Raises:
            Diverged: It answers something else than the flight has already.
        """
        ...


class Circle(Protocol):
    """Those that share calls. Safe for many tasks on one event loop."""

    async def claim(self, key: CacheKey) -> Lead | Leader:
        """Take the right to make the call for ``key``, unless another has it. Never raises."""
        ...
