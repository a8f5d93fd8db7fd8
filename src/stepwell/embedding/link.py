"""A connection to the host's embedder, seen from a worker."""

import asyncio
from collections.abc import Callable
from typing import cast

import numpy as np

from stepwell.core.errors import EmbeddingError
from stepwell.embedding.encoder import Row
from stepwell.embedding.frames import (
    Answer,
    BadFrame,
    Compared,
    Computed,
    Failed,
    Frames,
    Hello,
    Question,
    Refused,
    answer,
    frame,
)
from stepwell.embedding.recipes import Facts

Make = Callable[[int], Question]
"""Makes a question of a number, which its answer will have."""

Take = Callable[[Answer | EmbeddingError], None]
"""Takes what became of a question. On the event loop; once."""

LENGTH_TOLERANCE = 1e-3
"""How far from 1 the length of a vector may be that was rounded to float32."""


class Link(asyncio.Protocol):
    """One connection. Whatever goes wrong on it settles all that was asked over it."""

    def __init__(self, facts: Facts) -> None:
        """Expect the embedder of ``facts`` at the other end."""
        self._facts = facts
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, tuple[Take, float]] = {}
        self._number = 0
        self._clock = asyncio.get_running_loop().time
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the embedder has said that it is the right one; else has an EmbeddingError."""

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def waiting_seconds(self) -> float:
        """How long the oldest question has waited for its answer."""
        for _, asked_at in self._asked.values():
            return self._clock() - asked_at
        return 0.0

    def ask(self, make: Make, take: Take) -> None:
        """Send a question; ``take`` hears what becomes of it. Never waits."""
        if self._transport is None or not self.is_open:
            take(EmbeddingError("the connection to the embedder is gone"))
            return
        self._number += 1
        self._asked[self._number] = take, self._clock()
        self._transport.write(frame(make(self._number)))

    def give_up(self) -> None:
        """Break the connection; nobody waits for its greeting any more."""
        self.greeted.cancel()
        self.close()

    def close(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # Not of the class on every loop: uvloop's transports only look like it.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle everything."""
        self._transport = None
        error = EmbeddingError(f"the connection to the embedder is gone: {exc or 'it ended'}")
        if not self.greeted.done():
            self.greeted.set_exception(error)
        asked, self._asked = self._asked, {}
        for take, _ in asked.values():
            take(error)

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        try:
            for body in self._frames.feed(data):
                self._take(body)
        except BadFrame:
            self.close()

    def _take(self, body: bytes) -> None:
        said = answer(body)
        if isinstance(said, Hello):
            self._greet(said)
            return
        take, _ = self._asked.pop(said.number, (None, None))
        if take is not None:
            take(said)

    def _greet(self, hello: Hello) -> None:
        if hello.model_id != self._facts.model_id:
            if not self.greeted.done():
                self.greeted.set_exception(
                    EmbeddingError(f"{hello.model_id} answers instead of {self._facts.model_id}")
                )
            self.close()
        elif not self.greeted.done():
            self.greeted.set_result(None)


def row_of(said: Answer | EmbeddingError, dimensions: int) -> Row | EmbeddingError:
    """Return what became of a text whose vector was asked for."""
    match said:
        case Computed(floats=floats):
            return checked_vector(floats, dimensions)
        case Refused(why=why):
            return why
        case _:
            return _failure(said)


def score_of(said: Answer | EmbeddingError) -> float | EmbeddingError | None:
    """Return what became of a pair whose score was asked for."""
    match said:
        case Compared(score=score):
            if score is None or 0 <= score <= 1:
                return score
            return EmbeddingError("a score that is not from 0 to 1")
        case _:
            return _failure(said)


def _failure(said: Answer | EmbeddingError) -> EmbeddingError:
    match said:
        case EmbeddingError():
            return said
        case Failed(message=message):
            return EmbeddingError(message)
        case _:
            return EmbeddingError(f"the embedder answered {type(said).__name__}")


def checked_vector(floats: bytes, dimensions: int) -> Row | EmbeddingError:
    """Return a vector that was sent, or what is wrong with it."""
    if len(floats) != 4 * dimensions:
        return EmbeddingError(f"a vector of {len(floats)} bytes instead of {4 * dimensions}")
    vector = np.frombuffer(floats, "<f4").astype(np.float32, copy=False)
    # Not a number is in no range.
    if not abs(float(vector @ vector) - 1) < LENGTH_TOLERANCE:
        return EmbeddingError("a vector that is not of length 1")
    return vector
