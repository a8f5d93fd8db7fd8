"""One computation for the same texts: in flight, and for a while after."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.encoder import Row
from stepwell.embedding.patience import late_after

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Settle = Callable[[K, V | EmbeddingError], None]
"""Takes what became of a thing. On the event loop; once for each; later calls do nothing."""

Start = Callable[[Sequence[K], Settle[K, V]], None]
"""Begins to compute distinct things and returns at once; each is settled in the end."""

RECENT_TEXTS = 1024
"""Costs 2 KB each, and their text."""

MAX_IN_FLIGHT = 256
"""Texts beyond fail at once: they would not be ready within any budget."""


class Flights(Generic[K, V]):
    """Texts on their way to becoming vectors, or pairs to becoming scores. For one event loop.

    What several ask for at the same time is computed once. What has become of the last ones is
    remembered. Who waits longer than the budget gets an error; the computation goes on, and the
    next to ask may find its result.
    """

    def __init__(
        self,
        start: Start[K, V],
        *,
        budget_seconds: float | None,
        max_in_flight: int = MAX_IN_FLIGHT,
        recent: int = RECENT_TEXTS,
    ) -> None:
        """Compute by ``start``; a budget of ``None`` waits as long as it takes."""
        self._start = start
        self._budget_seconds = budget_seconds
        self._max_in_flight = max_in_flight
        self._max_recent = recent
        self._recent: OrderedDict[K, V] = OrderedDict()
        self._in_flight: dict[K, asyncio.Future[V | EmbeddingError]] = {}

    async def of(self, keys: Iterable[K], within_seconds: float | None = None) -> dict[K, V]:
        """Return what becomes of ``keys``.

        Args:
            keys: What is wanted.
            within_seconds: The budget, if it is another this time.

        Raises:
            EmbeddingTimeout: The budget is spent.
            EmbeddingError: A computation failed, or too many are in flight.
        """
        wanted = dict.fromkeys(keys)
        found = {key: self._remembered(key) for key in wanted if key in self._recent}
        waiting = self._take_off([key for key in wanted if key not in found])
        if waiting:
            # Not a cancellation of those that are late: others may wait for them.
            seconds = self._budget_seconds if within_seconds is None else within_seconds
            late = await late_after(seconds, waiting.values())
            if late:
                raise EmbeddingTimeout(
                    f"{late} of {len(wanted)} texts were not ready within {seconds} s"
                )
        for key, future in waiting.items():
            outcome = future.result()
            if isinstance(outcome, EmbeddingError):
                raise EmbeddingError(str(outcome)) from outcome
            found[key] = outcome
        return found

    def fail_all(self, error: EmbeddingError) -> None:
        """Settle whatever is in flight with ``error``."""
        for key in [*self._in_flight]:
            self._settle(key, error)

    def _take_off(self, keys: Sequence[K]) -> dict[K, asyncio.Future[V | EmbeddingError]]:
        """Start what is not in flight yet; return the futures of all ``keys``."""
        missing = [key for key in keys if key not in self._in_flight]
        if len(self._in_flight) + len(missing) > self._max_in_flight:
            raise EmbeddingError(f"more than {self._max_in_flight} texts are waiting already")
        loop = asyncio.get_running_loop()
        self._in_flight.update((key, loop.create_future()) for key in missing)
        futures = {key: self._in_flight[key] for key in keys}
        if missing:
            self._start(missing, self._settle)
        return futures

    def _settle(self, key: K, outcome: V | EmbeddingError) -> None:
        future = self._in_flight.pop(key, None)
        if future is None:
            return
        if not isinstance(outcome, EmbeddingError):
            self._remember(key, outcome)
        if not future.done():
            future.set_result(outcome)

    def _remembered(self, key: K) -> V:
        self._recent.move_to_end(key)
        return self._recent[key]

    def _remember(self, key: K, value: V) -> None:
        self._recent[key] = value
        if len(self._recent) > self._max_recent:
            self._recent.popitem(last=False)


async def embeddings(
    flights: Flights[str, Row],
    texts: Sequence[str],
    judge: Callable[[str], Unfit | None],
    dimensions: int,
) -> Embeddings:
    """Return the vectors of ``texts``; those that ``judge`` finds unfit are not computed.

    Raises:
        EmbeddingError: As `Flights.of`.
    """
    judged = {text: judge(text) for text in texts}
    found = await flights.of(text for text, unfit in judged.items() if unfit is None)
    vectors = np.zeros((len(texts), dimensions), np.float32)
    unfit: list[Unfit | None] = []
    for place, text in enumerate(texts):
        row = judged[text] or found[text]
        if isinstance(row, Unfit):
            unfit.append(row)
        else:
            vectors[place] = row
            unfit.append(None)
    return Embeddings(vectors, tuple(unfit))
