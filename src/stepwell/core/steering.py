"""What steering calls to model servers needs from the world, and what it tells."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from stepwell.core.kv import Tokens
from stepwell.core.ports import Call, Reply


class TokensUnavailable(Exception):
    """The tokens of a prompt cannot be had, now or at all. Nobody's request fails by that."""


class NoSinglePrompt(TokensUnavailable):
    """The call has no prompt of which there are tokens: nothing has failed."""


class TokenSource(Protocol):
    """Knows how a model server reads a prompt. Safe for many tasks on one event loop."""

    async def tokens(self, call: Call, body: Mapping[str, Any]) -> Tokens:
        """Return the ids of the prompt's tokens, template and special ones included.

        Args:
            call: What is asked.
            body: The call's body, parsed.

        Raises:
            TokensUnavailable: Not within the time there is, or there is no single prompt.
        """
        ...


Done = TypeVar("Done")

Cancel = Callable[[], object]
"""Ends some work, if it has not ended."""


class Beside(Protocol):
    """Does work beside calls that do not wait for it. One event loop; not thread-safe."""

    def begin(self, work: Coroutine[Any, Any, Done], then: Callable[[Done], None]) -> Cancel:
        """Begin ``work``, not before the caller waits for something; return what cancels it.

        What it returns is handed to ``then``, unless it was cancelled.
        """
        ...

    async def aclose(self) -> None:
        """Cancel what has not ended, and return when it has."""
        ...


@runtime_checkable
class SupportsNotes(Protocol):
    """A reply about whose call there is something to say."""

    @property
    def noted(self) -> tuple[str, ...]:
        """What, for the trail. More may be known at the reply's end."""
        ...


class Wanted(StrEnum):
    """What the operator wants of a replica: the value of the source `replica_source`."""

    SERVING = "serving"
    DRAINING = "draining"
    """It finishes what it has and gets no new work, unless no other replica is ready."""


def replica_source(upstream: str, replica: str) -> str:
    """Return the name of the source, everybody's, by which all gateways hear what is `Wanted`."""
    return f"replica:{upstream}/{replica}"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What was foretold of a replica's prefix cache against what it reported. Sums of tokens."""

    requests: int
    """On which it reported, since it was last lost."""
    prompt_tokens: int
    foretold_tokens: int
    cached_tokens: int
    """As reported, at most the prompt's."""
    met_tokens: int
    """Foretold and reported, request by request."""


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """A replica as one process sees it at one moment."""

    upstream: str
    replica: str
    wanted: Wanted
    condition: str
    """``ready``, ``draining`` or ``down``; down comes first."""
    down_seconds: float
    """For how long it is left out yet; 0 unless it is down."""
    load: float
    """Requests in flight from this process, those with much to prefill counted more."""
    held_tokens: int
    """Of prompts, as believed."""
    losses: int
    """How often all that was forgotten: it was down, restarted or emptied."""
    agreed: Agreed


@dataclass(frozen=True, slots=True)
class Hold:
    """What an engine whose KV is kept here is to do with a prompt it reads."""

    ttl_seconds: float
    """How long it may not be evicted; 0: it may at once."""
    is_public: bool = False
    """Whether all tenants may go on from it."""


@runtime_checkable
class SupportsReplicas(Protocol):
    """An upstream that is several servers of the same model, or one whose prefixes are followed."""

    def reports(self) -> Sequence[ReplicaReport]:
        """Return how each replica is, in the order of the settings. Some 2 us each."""
        ...

    async def send_to(self, replica: str, call: Call) -> Reply:
        """Send a call to one of them, however it is, as `Upstream.send` does.

        Raises:
            UpstreamError: As `Upstream.send`.
        """
        ...

    async def hold_at(self, replica: str, call: Call, hold: Hold) -> Reply:
        """Have one of them read the prompt of ``call`` and hold it. Only of an engine of ours.

        Raises:
            UpstreamError: As `Upstream.send`.
        """
        ...
