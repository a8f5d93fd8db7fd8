"""Who computes vectors: what the cache asks of a provider, and how it may fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.embedding.cache.pace import Pace

Text = str
Tokens = tuple[int, ...]

Input = Text | Tokens
"""What is embedded. A call has texts, or token arrays, but never both."""

Row = Sequence[float] | npt.NDArray[np.floating[Any]] | Unfit
"""The numbers of a vector as they came; or why there are none that mean anything."""


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What a provider answered to one call. Nothing in it has been checked."""

    rows: Sequence[Row]
    indices: Sequence[int] | None = None
    """Which input each row is of; ``None``: they are in the order of the inputs."""
    tokens: int | None = None
    """Of all inputs together, if it says."""


class Provider(Protocol):
    """Computes vectors, in one call each.

    Calls of several callers are joined where their providers are equal: implement ``__eq__`` and
    ``__hash__`` (a frozen dataclass has them) if two objects may stand for each other, credentials
    included. Safe for many tasks on one event loop. No call blocks the loop.
    """

    @property
    def pace(self) -> Pace:
        """How fast it may be asked. Shared by all objects that stand for the same account."""
        ...

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once. No retries: the cache makes them, at the provider's pace.

        Args:
            inputs: Distinct, all texts or all token arrays, as many as the pace's limits allow;
                a kind's prefix stands before each text already.

        Raises:
            Refused: It answered, with an error.
            NoAnswer: It could not be asked, or broke off.
            StepwellError: Any other reason; not tried again, unless it is an `UpstreamError`.
        """
        ...


class Refused(EmbeddingError):
    """A provider's HTTP answer that is an error; a gateway hands it on as it is.

    Attributes:
        status: HTTP status, 400 or more.
        body: As it came.
        headers: Those worth handing on, such as ``content-type``; by lower-case name.
        retry_after_seconds: When to come again (RFC 9110, 10.2.3), if it says.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        self.retry_after_seconds = retry_after_seconds

    @property
    def may_pass(self) -> bool:
        """Whether the same call may be answered later."""
        return self.status in _FOR_NOW or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


_FOR_NOW: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class NoAnswer(EmbeddingError):
    """A provider could not be asked, or broke off in the middle."""


class BadReply(EmbeddingError):
    """A provider's answer is not what was asked for. Nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class NoVector:
    """A text that has no vector that means anything. Not kept."""

    why: Unfit
