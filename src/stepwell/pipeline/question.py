"""One request, ready to be walked through the layers."""

from dataclasses import dataclass, field

from stepwell.core.entry import Phrasing, SourceValue
from stepwell.core.names import CacheKey, Endpoint, Namespace
from stepwell.core.ports import Call, Upstream
from stepwell.policy.classes import RequestClass
from stepwell.wire.controls import Directives
from stepwell.wire.shape import Shape


@dataclass(slots=True)
class Question:
    """What the layers need to know of a request, and nothing that changes from one repeat to the
    next: the same bytes under the same settings make an equal question.

    Not frozen, which would make it three times as dear; nobody changes it.
    """

    endpoint: Endpoint
    model: str
    shape: Shape
    directives: Directives
    request_class: RequestClass
    class_by: str
    """Who chose the class, and why; for the trail."""
    upstream: str
    """Name of the upstream that answers if no layer does."""
    namespace: Namespace | None
    key: CacheKey | None
    """``None``, as ``namespace``, where ``bypass`` says why no layer may be asked."""
    bypass: str | None
    sources: tuple[SourceValue, ...] = ()
    """Values of named sources the request states."""
    tags: tuple[str, ...] = ()
    phrasing: Phrasing | None = None
    """Its words, if answers to other words may be looked for."""
    reshaped: tuple[str, ...] = ()
    """What is done to the prompt before a model server reads it; for the trail."""
    may_be_repeat: bool = field(init=False, compare=False)
    """Whether the layers are asked at all; told once, as it is needed on the hot path."""

    def __post_init__(self) -> None:
        asked = self.bypass is None and self.key is not None and self.namespace is not None
        self.may_be_repeat = asked and not self.directives.no_cache


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and how to put it to the model server."""

    question: Question
    upstream: Upstream
    call: Call
    plain_call: Call
    """The call as the caller made it. ``call`` differs where a stream is also asked for its
    usage, so that what is stored can answer in either form."""
