"""Builds what takes judgements about hits on other words, and what has hits judged."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwell.assembly.instruments import Instruments
from stepwell.assembly.settings import Settings
from stepwell.core.errors import ConfigError
from stepwell.core.ports import Judgements, Upstream
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.audits import AuditRules, Audits
from stepwell.pipeline.feedback import Feedback
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.respondent import Respondents
from stepwell.pipeline.targets import Targets

if TYPE_CHECKING:
    from stepwell.assembly.semantic import SemanticRooms


@dataclass(frozen=True, slots=True)
class Auditing:
    """What there is beside the semantic layer to see how good it is."""

    feedback: Feedback
    audits: Audits
    advisers: Respondents | None
    """Whom to ask for a second opinion; ``None``: nobody."""


def build_auditing(
    settings: Settings,
    semantic: "SemanticRooms | None",
    exact: ExactLayer,
    judgements: Judgements,
    flights: Flights,
    targets: Targets,
    instruments: Instruments,
) -> Auditing | None:
    """Return the parts, put together; ``None`` without a semantic layer.

    Args:
        settings: Checked.
        semantic: What is to be judged, and its judge.
        exact: Where answers are kept.
        judgements: Where judgements are kept.
        flights: Ask model servers.
        targets: The model servers.
        instruments: Show what happens.

    Raises:
        ConfigError: The judge's model server is not among the targets.
    """
    if semantic is None:
        return None
    table = settings.semantic
    clock, events = instruments.clock, instruments.events
    respondents = Respondents(
        clock=clock,
        events=events,
        upstream=_named(table.judge.upstream, targets),
        model=table.judge.model,
    )
    feedback = Feedback(exact, judgements, semantic.denials, clock=clock, events=events)
    rules = AuditRules(table.sample_share, table.judge.max_per_minute, table.judge.timeout_seconds)
    audits = Audits(
        flights, semantic.judge, respondents, feedback, rules=rules, clock=clock, events=events
    )
    advisers = None if table.second_opinion == "off" else respondents
    return Auditing(feedback, audits, advisers)


def _named(name: str | None, targets: Targets) -> Upstream | None:
    if name is None:
        return None
    for target in targets:
        if target.upstream.name == name:
            return target.upstream
    raise ConfigError(f"semantic.judge.upstream is {name!r}, which is not there.")
