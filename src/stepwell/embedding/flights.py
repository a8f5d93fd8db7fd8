"""One computation for identical texts: in flight, and for a while after."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.encoder import Row

Settle = Callable[[str, Row | EmbeddingError], None]
"""Takes what became of a text. On the event loop; once for each text; later calls do nothing."""

Start = Callable[[Sequence[str], Settle], None]
"""Begins to compute distinct texts and returns at once; each is settled in the end."""

RECENT_TEXTS = 1024
"""Costs 2 KB each, and their text."""

MAX_IN_FLIGHT = 256
"""Texts beyond fail at once: they would not be ready within any budget."""


class Flights:
    """Texts on their way to becoming vectors. For one event loop.

    A text that several ask for at the same time is computed once. What has become of the last
    texts is remembered. Who waits longer than the budget gets an error; the computation goes on,
    and the next to ask may find its result.
    """

    def __init__(
        self,
        start: Start,
        *,
        dimensions: int,
        budget_seconds: float | None,
        max_in_flight: int = MAX_IN_FLIGHT,
        recent_texts: int = RECENT_TEXTS,
    ) -> None:
        """Compute by ``start``; a budget of ``None`` waits as long as it takes."""
        self._start = start
        self._dimensions = dimensions
        self._budget_seconds = budget_seconds
        self._max_in_flight = max_in_flight
        self._recent_texts = recent_texts
        self._recent: OrderedDict[str, Row] = OrderedDict()
        self._in_flight: dict[str, asyncio.Future[Row | EmbeddingError]] = {}

    async def embed(self, texts: Sequence[str], judge: Callable[[str], Unfit | None]) -> Embeddings:
        """Return the vectors of ``texts``; those that ``judge`` finds unfit are not computed.

        Raises:
            EmbeddingTimeout: The budget is spent.
            EmbeddingError: A computation failed, or too many are in flight.
        """
        rows: dict[str, Row] = {}
        for text in texts:
            unfit = judge(text)
            if unfit is not None:
                rows[text] = unfit
        rows |= await self._computed([text for text in dict.fromkeys(texts) if text not in rows])
        return self._together([rows[text] for text in texts])

    def fail_all(self, error: EmbeddingError) -> None:
        """Settle whatever is in flight with ``error``."""
        for text in [*self._in_flight]:
            self._settle(text, error)

    async def _computed(self, texts: Sequence[str]) -> dict[str, Row]:
        found = {text: row for text in texts if (row := self._remembered(text)) is not None}
        waiting = self._take_off([text for text in texts if text not in found])
        if waiting:
            # Not a cancellation of those that are late: others may wait for them.
            _, late = await asyncio.wait(waiting.values(), timeout=self._budget_seconds)
            if late:
                raise EmbeddingTimeout(
                    f"{len(late)} of {len(texts)} texts had no vector within "
                    f"{self._budget_seconds} s"
                )
        for text, future in waiting.items():
            outcome = future.result()
            if isinstance(outcome, EmbeddingError):
                raise EmbeddingError(str(outcome)) from outcome
            found[text] = outcome
        return found

    def _take_off(self, texts: Sequence[str]) -> dict[str, asyncio.Future[Row | EmbeddingError]]:
        """Start what is not in flight yet; return the futures of all ``texts``."""
        missing = [text for text in texts if text not in self._in_flight]
        if len(self._in_flight) + len(missing) > self._max_in_flight:
            raise EmbeddingError(f"more than {self._max_in_flight} texts are waiting for a vector")
        loop = asyncio.get_running_loop()
        self._in_flight.update((text, loop.create_future()) for text in missing)
        futures = {text: self._in_flight[text] for text in texts}
        if missing:
            self._start(missing, self._settle)
        return futures

    def _settle(self, text: str, outcome: Row | EmbeddingError) -> None:
        future = self._in_flight.pop(text, None)
        if future is None:
            return
        if not isinstance(outcome, EmbeddingError):
            self._remember(text, outcome)
        if not future.done():
            future.set_result(outcome)

    def _remembered(self, text: str) -> Row | None:
        row = self._recent.get(text)
        if row is not None:
            self._recent.move_to_end(text)
        return row

    def _remember(self, text: str, row: Row) -> None:
        self._recent[text] = row
        if len(self._recent) > self._recent_texts:
            self._recent.popitem(last=False)

    def _together(self, rows: Iterable[Row]) -> Embeddings:
        outcomes = [*rows]
        vectors = np.zeros((len(outcomes), self._dimensions), np.float32)
        unfit: list[Unfit | None] = []
        for place, row in enumerate(outcomes):
            if isinstance(row, Unfit):
                unfit.append(row)
            else:
                vectors[place] = row
                unfit.append(None)
        return Embeddings(vectors, tuple(unfit))
