"""An embedder that asks the host's embedder process."""

import asyncio
from collections.abc import Sequence
from functools import partial

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Embeddings
from stepwell.embedding.encoder import Row
from stepwell.embedding.flights import RECENT_TEXTS, Flights, Settle, embeddings
from stepwell.embedding.frames import Answer, Ask, Compare
from stepwell.embedding.link import Link, Make, Take, row_of, score_of
from stepwell.embedding.recipes import Facts
from stepwell.embedding.text import plainly_unfit, readable

BUDGET_SECONDS = 0.2

DIAL_TIMEOUT_SECONDS = 2.0

REDIAL_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""After attempts to connect that failed; meanwhile texts fail at once."""

STALLED_SECONDS = 1.0
"""When an answer has been due for so long, further texts fail at once: nobody waits in vain."""

GIVEN_UP_SECONDS = 60.0
"""When an answer has been due for so long, the connection is given up."""


RECENT_PAIRS = 4096
"""Whose scores are remembered."""

_NOT_THERE = "the embedder is not there: it starts, or starts again"
_Pair = tuple[str, str]


class RemoteEmbedder:
    """Implements `Embedder` and `Comparer` of `stepwell.core.vectors` over a Unix socket.

    For one event loop.

    It connects when first asked and again when the connection is gone. It never waits for
    longer than its budget, and while there is no embedder it fails within microseconds.
    """

    def __init__(
        self,
        socket: str,
        facts: Facts,
        *,
        budget_seconds: float = BUDGET_SECONDS,
        recent_texts: int = RECENT_TEXTS,
    ) -> None:
        """Ask the process that listens at ``socket`` and is, by its own word, that of ``facts``.

        Args:
            socket: Path of a Unix socket.
            facts: What the embedder must be.
            budget_seconds: Longest wait of an `embed`.
            recent_texts: How many texts' vectors are remembered, 2 KB each.
        """
        self.model_id = facts.model_id
        self.dimensions = facts.dimensions
        self._socket = socket
        self._facts = facts
        self._judge = partial(plainly_unfit, window_tokens=facts.window_tokens)
        self._texts = Flights[str, Row](
            self._start_texts, budget_seconds=budget_seconds, recent=recent_texts
        )
        self._pairs = Flights[_Pair, float | None](
            self._start_pairs, budget_seconds=budget_seconds, recent=RECENT_PAIRS
        )
        self._link: Link | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._held: list[tuple[Make, Take]] = []
        self._failures = 0
        self._resting_until = float("-inf")
        self._is_closed = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``. Costs 0.2 ms on top of the model; of this loop, 0.1 ms.

        Raises:
            EmbeddingTimeout: They were not ready within the budget. They are computed all the
                same, and found by whoever asks next.
            EmbeddingError: The process is not there, is stalled, or sent what is no vector.
        """
        known = [readable(text) for text in texts]
        return await embeddings(self._texts, known, self._judge, self.dimensions)

    async def score(
        self, one: str, other: str, *, within_seconds: float | None = None
    ) -> float | None:
        """As `Comparer.score`. Costs 0.2 ms on top of the model, nothing for one of the last pairs.

        Raises:
            EmbeddingTimeout: As `embed`.
            EmbeddingError: As `embed`; the model cannot compare.
        """
        if self._judge(one) is not None or self._judge(other) is not None:
            return None
        first, second = sorted((readable(one), readable(other)))
        pair = first, second
        return (await self._pairs.of([pair], within_seconds))[pair]

    async def aclose(self) -> None:
        """Break the connection. May be called twice."""
        self._is_closed = True
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.wait([self._dialling])
        if self._link is not None:
            self._link.close()
        error = EmbeddingError("the embedder is closed")
        self._texts.fail_all(error)
        self._pairs.fail_all(error)

    def _start_texts(self, texts: Sequence[str], settle: Settle[str, Row]) -> None:
        for text in texts:
            self._send(
                partial(Ask, text=text),
                partial(_settle_text, settle, text, self.dimensions),
            )

    def _start_pairs(self, pairs: Sequence[_Pair], settle: Settle[_Pair, float | None]) -> None:
        for pair in pairs:
            one, other = pair
            self._send(partial(Compare, one=one, other=other), partial(_settle_pair, settle, pair))

    def _send(self, make: Make, take: Take) -> None:
        """Ask over the connection, or as soon as there is one."""
        problem = self._problem()
        if problem is not None:
            take(EmbeddingError(problem))
        elif self._link is not None:
            self._link.ask(make, take)
        else:
            self._held.append((make, take))
            if self._dialling is None:
                self._dialling = asyncio.create_task(self._dial())

    def _problem(self) -> str | None:
        """Return why nothing can be asked just now. Forgets a connection that is gone."""
        if self._link is not None and not self._link.is_open:
            self._link = None
        if self._is_closed:
            return "the embedder is closed"
        if self._link is not None and self._link.waiting_seconds > STALLED_SECONDS:
            if self._link.waiting_seconds > GIVEN_UP_SECONDS:
                self._link.close()
            return "the embedder is stalled"
        if self._link is None and asyncio.get_running_loop().time() < self._resting_until:
            return _NOT_THERE
        return None

    async def _dial(self) -> None:
        """Connect; send what was held meanwhile, or settle it with what went wrong."""
        problem = EmbeddingError("the embedder is closed")
        try:
            self._link = await self._connected()
            self._failures = 0
        except EmbeddingError as error:
            problem = error
            self._rest()
        finally:
            self._dialling = None
            held, self._held = self._held, []
            for make, take in held:
                if self._link is not None:
                    self._link.ask(make, take)
                else:
                    take(problem)

    async def _connected(self) -> Link:
        loop = asyncio.get_running_loop()
        link = Link(self._facts)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_SECONDS):
                await loop.create_unix_connection(lambda: link, self._socket)
                await link.greeted
        except OSError as error:  # a timeout is one
            link.give_up()
            is_gone = isinstance(error, FileNotFoundError | ConnectionRefusedError)
            raise EmbeddingError(_NOT_THERE if is_gone else f"{_NOT_THERE}: {error}") from error
        except BaseException:
            link.give_up()
            raise
        return link

    def _rest(self) -> None:
        pause = REDIAL_PAUSES_SECONDS[min(self._failures, len(REDIAL_PAUSES_SECONDS) - 1)]
        self._failures += 1
        self._resting_until = asyncio.get_running_loop().time() + pause


def _settle_text(
    settle: Settle[str, Row], text: str, dimensions: int, said: Answer | EmbeddingError
) -> None:
    settle(text, row_of(said, dimensions))


def _settle_pair(
    settle: Settle[_Pair, float | None], pair: _Pair, said: Answer | EmbeddingError
) -> None:
    settle(pair, score_of(said))
