"""An embedder whose model is in this process, on threads of its own."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Embeddings
from stepwell.embedding.encoder import Encoder, Row, Scorer, score_pair
from stepwell.embedding.flights import Flights, Settle, embeddings
from stepwell.embedding.recipes import Facts
from stepwell.embedding.text import plainly_unfit

MAX_IN_FLIGHT = 100_000
"""For whole files of texts."""

RECENT_PAIRS = 20_000
"""Whose scores are remembered: popular questions meet again and again."""


_Pair = tuple[str, str]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class InProcessEmbedder:
    """Implements `Embedder` and `Comparer` of `stepwell.core.vectors` for offline work: files of
    texts, no deadline.

    A gateway uses the embedder of the host instead (`stepwell.embedding.remote`): each worker
    would load the model again.
    """

    def __init__(
        self, encoder: Encoder, facts: Facts, *, threads: int, scorer: Scorer | None = None
    ) -> None:
        """Compute on ``threads`` threads, one text or pair at a time on each."""
        self.model_id = facts.model_id
        self.dimensions = facts.dimensions
        self._judge = partial(plainly_unfit, window_tokens=facts.window_tokens)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._texts = Flights[str, Row](
            partial(self._start, encoder.encode), budget_seconds=None, max_in_flight=MAX_IN_FLIGHT
        )
        self._pairs = Flights[_Pair, float | None](
            partial(self._start, partial(score_pair, scorer)),
            budget_seconds=None,
            max_in_flight=MAX_IN_FLIGHT,
            recent=RECENT_PAIRS,
        )

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``.

        Raises:
            EmbeddingError: The model failed.
        """
        return await embeddings(self._texts, texts, self._judge, self.dimensions)

    async def score(
        self, one: str, other: str, *, within_seconds: float | None = None
    ) -> float | None:
        """As `Comparer.score`.

        Raises:
            EmbeddingError: The model failed, or cannot compare.
        """
        first, second = sorted((one, other))
        pair = first, second
        return (await self._pairs.of([pair], within_seconds))[pair]

    async def aclose(self) -> None:
        """Finish what is being computed, drop what waits. May be called twice."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        error = EmbeddingError("the embedder is closed")
        self._texts.fail_all(error)
        self._pairs.fail_all(error)

    def _start(self, compute: Callable[[K], V], keys: Sequence[K], settle: Settle[K, V]) -> None:
        loop = asyncio.get_running_loop()
        for key in keys:
            try:
                computing = self._pool.submit(compute, key)
            except RuntimeError:
                settle(key, EmbeddingError("the embedder is closed"))
                continue
            computing.add_done_callback(partial(_hand_over, loop, key, settle))


def _hand_over(
    loop: asyncio.AbstractEventLoop, key: K, settle: Settle[K, V], computing: Future[V]
) -> None:
    """Settle ``key`` from the thread that computed it."""
    if not computing.cancelled() and not loop.is_closed():
        outcome = outcome_of(computing)
        loop.call_soon_threadsafe(settle, key, outcome)


def outcome_of(computing: Future[V]) -> V | EmbeddingError:
    """Return what a computation that is done came to."""
    match computing.exception():
        case None:
            return computing.result()
        case EmbeddingError() as error:
            return error
        case error:
            return EmbeddingError(f"{type(error).__name__}: {error}")
