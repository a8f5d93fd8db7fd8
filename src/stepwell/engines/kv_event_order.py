"""Puts batches of KV events in order: no batch twice, and it is said where some are missing. Pure.

A server counts its batches from 0 on in each run, and keeps the last of them to be asked for again.
So a number that was seen before is a repetition, or the server has been started anew; a number that
is too high means that some were lost, or again that it has been started anew meanwhile. One thing
cannot be told: a new run whose first batches were lost, up to the very number that the old run's
next one would have had.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stepwell.core.kv_events import Gap, KvEvent, Resync
from stepwell.engines.kv_event_batch import Batch


@dataclass(frozen=True, slots=True)
class Expected:
    """The batch that comes next."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A batch that was taken before."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is something before this batch that was not taken: ask for it again."""

    since: int
    """From which number on. The last one that was taken is among them: if it is not the same any
    more, the server is in another run."""


Verdict = Expected | Repeated | Missing


class Order:
    """How far the batches of one server were taken."""

    def __init__(self) -> None:
        """Know nothing yet: all there is, is missing."""
        self._last: Batch | None = None

    def judge(self, batch: Batch) -> Verdict:
        """Return what a batch is that has just come."""
        last = self._last
        if last is None:
            return Missing(0)
        if batch.sequence == last.sequence + 1:
            return Expected()
        if batch.sequence > last.sequence:
            return Missing(last.sequence)
        # Later batches of a run bear later times.
        return Repeated() if batch.time <= last.time else Missing(0)

    def is_other_run(self, again: Sequence[Batch]) -> bool:
        """Return whether the server was started anew: then all of this run must be asked for."""
        last = self._last
        return last is not None and any(
            batch.sequence == last.sequence and batch.payload != last.payload for batch in again
        )

    def take(self, batch: Batch) -> tuple[KvEvent, ...]:
        """Take a batch that was expected."""
        self._last = batch
        return batch.events

    def make_up(self, batches: Iterable[Batch]) -> Iterator[KvEvent]:
        """Take what was asked for again, and then the batch that showed that it was missing.

        What is missing in there cannot be had any more.
        """
        for batch in batches:
            last = self._last
            if last is not None and batch.sequence <= last.sequence and batch.time <= last.time:
                continue
            if batch.sequence == 0:
                yield Resync()
            elif last is None or batch.sequence <= last.sequence:
                yield Gap(batch.sequence)
            elif batch.sequence > last.sequence + 1:
                yield Gap(batch.sequence - last.sequence - 1)
            yield from self.take(batch)
