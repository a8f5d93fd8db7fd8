"""What the study needs of the house: an embedder that takes its time, and what decides."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from stepwell.assembly.embedder import INSTALL, recipe_of, threads_of, wants_semantic
from stepwell.assembly.environment import cache_dir
from stepwell.assembly.settings import Settings
from stepwell.core.clock import SystemClock
from stepwell.core.errors import ConfigError
from stepwell.telemetry.fanout import Fanout

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.core.vectors import Comparer, Embedder
    from stepwell.semantic.acceptance.calibration import Calibration
    from stepwell.semantic.acceptance.verdict import Acceptance
    from stepwell.semantic.acceptance.verified import Boundaries
    from stepwell.semantic.comparison import Comparison

_PATIENCE_SECONDS = 60.0
"""Nobody waits for an answer here; an endpoint may take as long as the settings allow."""


@dataclass(frozen=True, slots=True)
class StudyParts:
    """The parts of a semantic layer, as a gateway with the same settings would have them."""

    embedder: "Embedder"
    decide_by: "Callable[[Boundaries], Acceptance]"
    """Makes what decides about candidates, from what judged hits say of their entries."""
    calibration: "Calibration"
    comparer: "Comparer | None"
    """Compares the best candidate's text, if anything does."""
    comparison: "Comparison | None"
    """Asks it."""
    temperature_tolerance: float


@asynccontextmanager
async def open_study(settings: Settings) -> AsyncIterator[StudyParts]:
    """Open the embedder that the settings mean, in this process, until the block ends.

    Raises:
        ConfigError: They mean none, or it cannot be opened.
    """
    if not wants_semantic(settings):
        raise ConfigError(_why_none(settings))
    from stepwell.assembly.deciding import calibration_of, make_acceptance  # noqa: PLC0415
    from stepwell.assembly.semantic import comparer_of, make_comparison  # noqa: PLC0415

    table = settings.semantic
    embedder = _embedder(settings)
    try:
        comparer = comparer_of(table, embedder)
        calibration = calibration_of(table, embedder.model_id, compares=comparer is not None)
        yield StudyParts(
            embedder,
            partial(make_acceptance, table, calibration),
            calibration,
            comparer,
            make_comparison(
                comparer, calibration, budget_seconds=None, clock=SystemClock(), events=Fanout()
            ),
            table.temperature_tolerance,
        )
    finally:
        await embedder.aclose()


def _embedder(settings: Settings) -> "Embedder":
    recipe = recipe_of(settings)
    if recipe is None:
        from stepwell.assembly.semantic import make_embedder  # noqa: PLC0415  (an extra)

        patient = msgspec.structs.replace(settings.semantic, timeout_seconds=_PATIENCE_SECONDS)
        return make_embedder(patient, None)
    from stepwell.embedding.comparison import comparer_of as comparing  # noqa: PLC0415
    from stepwell.embedding.in_process import InProcessEmbedder  # noqa: PLC0415  (an extra)
    from stepwell.embedding.opening import open_encoder  # noqa: PLC0415
    from stepwell.embedding.recipes import facts  # noqa: PLC0415

    models = cache_dir() / "models"
    try:
        encoder = open_encoder(recipe, models)
    except OSError as error:
        raise ConfigError(f"{models} cannot be used: {error.strerror}.") from error
    return InProcessEmbedder(
        encoder, facts(recipe), threads=threads_of(settings.semantic), scorer=comparing(encoder)
    )


def _why_none(settings: Settings) -> str:
    if settings.semantic.embedder == "off":
        return "semantic.embedder is 'off', and this compares questions by their meaning."
    how = INSTALL["multilingual"]
    return f"this compares questions by their meaning, and no embedder is installed: {how}."
