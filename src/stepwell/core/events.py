"""What happened, for metrics, log and ledger. Rooms emit; `stepwell.telemetry` listens."""

from dataclasses import dataclass
from enum import StrEnum

from stepwell.core.entry import Usage
from stepwell.core.names import Tier


class Result(StrEnum):
    """How a request ended, as `stepwell_requests_total` counts it: once each."""

    HIT = "hit"
    STALE = "stale"
    """Answered by an entry past its time, as the class allows."""
    MISS = "miss"
    COLLAPSED = "collapsed"
    """Answered by another request's upstream call."""
    BYPASS = "bypass"
    """Forwarded without asking or filling the cache."""
    REJECTED = "rejected"
    """The caller's fault: a 4xx, or an unmet ``only-if-cached``; nothing was sent upstream."""
    ERROR = "error"
    """The upstream failed and nothing stale could stand in."""
    CANCELLED = "cancelled"
    """The client left before its answer was complete."""


@dataclass(slots=True)
class RequestEnded:
    """A request is over. Not frozen, because it is made on the hot path; nobody changes it."""

    result: Result
    layer: str
    """Layer that answered, or ``none``."""
    request_class: str
    endpoint: str
    model: str
    upstream: str
    """Upstream that answered, or would have."""
    status: int
    stream: bool
    seconds: float
    """From the request's last byte to the reply's last byte handed to the transport."""
    first_byte_seconds: float
    usage: Usage
    """Tokens of the answer, where known."""
    saved_seconds: float
    """Upstream time not spent; 0 unless a hit, stale or collapsed."""
    trail: str
    """What every layer said and why."""
    tenant: str
    """The namespace in hexadecimal: which requests belong together, not whose they are."""


@dataclass(frozen=True, slots=True)
class FillRefused:
    """An answer was not stored."""

    gate: str
    request_class: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer was stored."""

    request_class: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """A tier let entries go."""

    tier: Tier
    reason: str
    """``capacity``, ``expired``, ``invalidated``, ``replaced`` or ``corrupt``."""
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Degraded:
    """Something failed that no caller sees: the cache does less until it recovers."""

    component: str
    """Such as ``store.disk`` or ``semantic.embedder``."""
    error: str


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """Whoever made a call that was read here too has died, sleeps, or is not heard."""

    midway: bool
    """Some of the reply had been handed on."""


@dataclass(frozen=True, slots=True)
class Bypassed:
    """A part is not used from now on, because it fails. Requests are answered without it."""

    part: str
    """Such as ``redis``."""
    reason: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """A part that was bypassed is used again."""

    part: str
    seconds: float
    """How long it was not."""


@dataclass(frozen=True, slots=True)
class UpstreamFailed:
    """A call to a model server failed, or was answered with an error status."""

    upstream: str
    kind: str
    """``timeout``, ``unreachable``, ``broken``, ``status_429``, ``status_5xx``, ..."""


@dataclass(frozen=True, slots=True)
class UpstreamAnswered:
    """A model server gave a complete answer."""

    upstream: str
    model: str
    seconds: float
    first_byte_seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class Placed:
    """A replica was chosen for a call."""

    upstream: str
    replica: str
    why: str
    """What decided: a closed set, see `stepwell.prefix.placement.router.Why`."""


@dataclass(frozen=True, slots=True)
class CachedTokensCompared:
    """A replica reported how much of a prompt it had in its prefix cache."""

    upstream: str
    replica: str
    prompt_tokens: int
    foretold_tokens: int
    cached_tokens: int
    """As reported, whatever it is."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """A model server has read a conversation that was answered from the cache."""

    upstream: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class NotWarmed:
    """A model server was to read such a conversation, and has not."""

    upstream: str
    why: str
    """``busy``: it had other things to do for too long. ``crowded``: newer ones came.
    ``over-budget``, ``failed``."""


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """A replica has read a prompt that it is to hold."""

    upstream: str
    replica: str
    prompt: str
    """Where the settings have it."""
    seconds: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class StageTimed:
    """How long one stage of a request took: ``parse``, ``key``, ``memory``, ``disk``, ..."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SemanticLookup:
    """Other words were looked for."""

    outcome: str
    """``match``, or why not: a closed set, see `stepwell.core.likeness.NoMatch`."""
    level: str
    similarity: float
    """Of the match, or of the nearest candidate; 0 if there was none."""
    seconds: float


@dataclass(frozen=True, slots=True)
class HitJudged:
    """Somebody said whether an answer to other words was right."""

    verdict: str
    """``right`` or ``wrong``."""
    by: str
    """``person``, or what made it judged: ``sample``, ``shadow``."""
    request_class: str
    """Of the request that was served, or would have been; ``none`` where it is not known."""


@dataclass(frozen=True, slots=True)
class HitNotJudged:
    """A hit on other words was to be judged, and was not."""

    why: str
    """``unsure``: the judge cannot tell. ``no-answer``: there was none to compare with.
    ``failed``: the judge, or the store. ``crowded``, ``over-budget``: too many at a time, or a
    minute."""
    by: str
    """``sample`` or ``shadow``."""
    request_class: str


@dataclass(frozen=True, slots=True)
class HitWithheld:
    """There was an answer to other words, which shadow mode kept from being served."""

    request_class: str


Event = (
    RequestEnded
    | FillRefused
    | Stored
    | Evicted
    | LeaderLost
    | Degraded
    | Bypassed
    | Resumed
    | UpstreamFailed
    | UpstreamAnswered
    | Placed
    | CachedTokensCompared
    | Warmed
    | NotWarmed
    | WarmedUp
    | StageTimed
    | SemanticLookup
    | HitJudged
    | HitNotJudged
    | HitWithheld
)
