"""Builds the judges of the semantic layer, and what has its hits judged."""

from stepwell.assembly.settings_semantic import Judge, Semantic
from stepwell.core.clock import Clock
from stepwell.core.judging import AnswerJudge
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Embedder
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.judges.embedding import EmbeddingJudge
from stepwell.semantic.judges.model import ModelJudge
from stepwell.semantic.judges.text import TextJudge
from stepwell.semantic.opinions import Opinions
from stepwell.semantic.valve.valve import differences


def make_judge(table: Judge, embedder: Embedder, calibration: Calibration) -> AnswerJudge:
    """Return the judge that the settings name."""
    match table.kind:
        case "model":
            return ModelJudge()
        case "text":
            return TextJudge()
        case "embedding":
            return EmbeddingJudge(embedder, calibration, differences)


def make_opinions(table: Semantic, *, clock: Clock, events: EventSink) -> Opinions | None:
    """Return what has the last word on a match, if the settings want it."""
    if table.second_opinion == "off":
        return None
    return Opinions(
        ModelJudge(),
        seconds=table.second_opinion_seconds,
        max_per_minute=table.judge.max_per_minute,
        clock=clock,
        events=events,
    )
