"""A provider of vectors that does as it is told, and what its vectors must be."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepwell.core.embedding import VectorKind
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.events import Degraded
from stepwell.embedding.cache.canary import CANARY_TEXTS
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import Input, Reply

WIDTH = 8
KIND = VectorKind("here", "model")

E = TypeVar("E", bound=EmbeddingEvent)

Twist = Callable[[Reply], Reply]


def model(given: Input, seed: str = "", width: int = WIDTH) -> npt.NDArray[np.float32]:
    """Return the one right vector of an input: no two have the same."""
    digest = hashlib.sha256(f"{seed}{given!r}".encode()).digest()
    numbers = np.frombuffer(digest * (width // 32 + 1), np.uint8)[:width]
    return numbers.astype(np.float32) + np.float32(0.5)


async def no_pause(seconds: float) -> None:
    """Let others run, once."""
    await asyncio.sleep(0)


@dataclass(eq=False)
class FakeProvider:
    """Answers by `model`, after whatever stands in its way."""

    limits: Limits = field(default_factory=Limits)
    seed: str = ""
    width: int = WIDTH
    twist: Twist | None = None
    """Changes a reply."""
    errors: list[Exception | None] = field(default_factory=list)
    """Raised by the next calls, one each."""
    calls: list[tuple[Input, ...]] = field(default_factory=list)
    """Without canaries."""
    canaries: int = 0
    """Calls for canaries."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Calls wait for it."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0

    def __post_init__(self) -> None:
        self.pace = Pace(self.limits, pause=no_pause)
        self.gate.set()

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once."""
        if set(inputs) <= set(CANARY_TEXTS):
            self.canaries += 1
        else:
            self.calls.append(tuple(inputs))
            self.started.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            error = self.errors.pop(0) if self.errors else None
            if error is not None:
                raise error
        rows = [model(given, self.seed, self.width) for given in inputs]
        reply = Reply(rows, list(range(len(rows))), sum(map(len, inputs)))
        return reply if self.twist is None else self.twist(reply)

    @property
    def sent(self) -> Counter[Input]:
        """How often each input was sent."""
        return Counter(given for call in self.calls for given in call)


@dataclass
class Heard:
    """A sink that remembers."""

    events: list[EmbeddingEvent] = field(default_factory=list)

    def emit(self, event: EmbeddingEvent) -> None:
        """Take one event."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def degraded(self) -> set[str]:
        """Return what has failed."""
        return {event.component for event in self.of(Degraded)}
