"""An embedder whose model is in this process, on threads of its own."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Embeddings
from stepwell.embedding.encoder import Encoder, Row
from stepwell.embedding.flights import Flights, Settle
from stepwell.embedding.recipes import Facts
from stepwell.embedding.text import plainly_unfit

MAX_IN_FLIGHT = 100_000
"""For whole files of texts."""


class InProcessEmbedder:
    """Implements `stepwell.core.vectors.Embedder` for offline work: files of texts, no deadline.

    A gateway uses the embedder of the host instead (`stepwell.embedding.remote`): each worker
    would load the model again.
    """

    def __init__(self, encoder: Encoder, facts: Facts, *, threads: int) -> None:
        """Compute with ``encoder`` on ``threads`` threads, one text at a time on each."""
        self.model_id = facts.model_id
        self.dimensions = facts.dimensions
        self._window_tokens = facts.window_tokens
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._flights = Flights(
            self._start,
            dimensions=facts.dimensions,
            budget_seconds=None,
            max_in_flight=MAX_IN_FLIGHT,
        )

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``.

        Raises:
            EmbeddingError: The model failed.
        """
        return await self._flights.embed(
            texts, partial(plainly_unfit, window_tokens=self._window_tokens)
        )

    async def aclose(self) -> None:
        """Finish what is being computed, drop what waits. May be called twice."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._flights.fail_all(EmbeddingError("the embedder is closed"))

    def _start(self, texts: Sequence[str], settle: Settle) -> None:
        loop = asyncio.get_running_loop()
        for text in texts:
            try:
                computing = self._pool.submit(self._encoder.encode, text)
            except RuntimeError:
                settle(text, EmbeddingError("the embedder is closed"))
                continue
            computing.add_done_callback(partial(_hand_over, loop, text, settle))


def _hand_over(
    loop: asyncio.AbstractEventLoop, text: str, settle: Settle, computing: Future[Row]
) -> None:
    """Settle ``text`` from the thread that computed it."""
    if not computing.cancelled() and not loop.is_closed():
        loop.call_soon_threadsafe(settle, text, outcome_of(computing))


def outcome_of(computing: "Future[Row]") -> Row | EmbeddingError:
    """Return what a computation that is done came to."""
    match computing.exception():
        case None:
            return computing.result()
        case EmbeddingError() as error:
            return error
        case error:
            return EmbeddingError(f"{type(error).__name__}: {error}")
