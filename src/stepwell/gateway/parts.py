"""What the gateway is put together from; `stepwell.assembly` makes them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stepwell.core.clock import Clock
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.gateway.auth import Authenticator
from stepwell.gateway.drain import Drain
from stepwell.gateway.warm import MakePrompt
from stepwell.pipeline.feedback import Feedback
from stepwell.pipeline.groups import Groups
from stepwell.pipeline.intake import Intake
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.targets import Targets

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.pipeline.embedding_deletion import EmbeddingEraser
    from stepwell.pipeline.embedding_repeats import EmbeddingRepeats
    from stepwell.pipeline.embeddings import EmbeddingDesk


class MetricsPage(Protocol):
    """A page of metrics in one of Prometheus's text formats."""

    @property
    def content_type(self) -> str:
        """Its media type."""
        ...

    @property
    def body(self) -> bytes:
        """The page."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingParts:
    """What the routes need where vectors are kept."""

    desk: "EmbeddingDesk"
    eraser: "EmbeddingEraser"
    repeats: "EmbeddingRepeats"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes need."""

    auth: Authenticator
    intake: Intake
    runner: Runner
    exact: ExactLayer
    groups: Groups
    feedback: Feedback | None
    """Where there is a semantic layer."""
    embeddings: EmbeddingParts | None
    """Where vectors are kept; else requests for them are passed on."""
    targets: Targets
    clock: Clock
    events: EventSink
    max_body_bytes: int
    admin_token: str | None
    """What opens ``/admin``; ``None``: only a loopback address does."""
    read_metrics: Callable[[str], Awaitable[MetricsPage]]
    """Takes the ``Accept`` field."""
    read_statement: Callable[[], Awaitable[bytes]]
    """The savings ledger, as JSON."""
    read_troubles: Callable[[], Mapping[str, str]]
    """Parts that are bypassed just now, and why."""
    drain: Drain
    make_prompt: MakePrompt
    """For ``POST /admin/warm``."""
