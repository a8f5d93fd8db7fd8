"""What a question went through, and how long each stage took."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class StageName(StrEnum):
    """A stage, in the order in which a question passes them."""

    MEMO = "memo"
    """What the same question came to last time."""
    EMBEDDING = "embedding"
    """The question as a vector."""
    SEARCH = "search"
    """The passages nearest to it."""
    RESULT = "result"
    """The answer to this question by these passages, kept."""
    MODEL = "model"
    """The model's answer."""


class StageOutcome(StrEnum):
    """How a stage ended."""

    HIT = "hit"
    """It was known."""
    MISS = "miss"
    """It was not known."""
    DONE = "done"
    """The work was done."""
    SKIPPED = "skipped"
    """There was no need."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that is over."""

    name: StageName
    milliseconds: float
    outcome: StageOutcome
    detail: str = ""
    """Which tier had it, or how much there was."""


@dataclass(slots=True)
class Running:
    """A stage that is not over yet."""

    outcome: StageOutcome
    detail: str = ""


@dataclass(slots=True)
class Stages:
    """Notes stages as they pass. For one question."""

    monotonic: Callable[[], float]
    past: list[Stage] = field(default_factory=list)

    @contextmanager
    def time(self, name: StageName, outcome: StageOutcome) -> Iterator[Running]:
        """Time a stage; it ends as the block says it did, or else by ``outcome``."""
        running = Running(outcome)
        started = self.monotonic()
        try:
            yield running
        finally:
            milliseconds = 1_000 * (self.monotonic() - started)
            self.past.append(Stage(name, milliseconds, running.outcome, running.detail))

    def skip(self, *names: StageName) -> None:
        """Note stages that there was no need for."""
        self.past += [Stage(name, 0.0, StageOutcome.SKIPPED) for name in names]
