"""What is in force of the semantic layer where the settings leave it to what was measured."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwell.assembly.embedder import recipe_of, threads_of, wants_semantic
from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_semantic import Levels

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.semantic.acceptance.calibration import Calibration


def embedder_name(settings: Settings) -> str:
    """Return what the embedder is called that levels are measured for; empty: there is none."""
    recipe, endpoint = recipe_of(settings), settings.semantic.endpoint
    if recipe is not None:
        return recipe.name
    return "" if endpoint is None else endpoint.model


def calibration_in_force(settings: Settings) -> "Calibration | None":
    """Return what the levels come to; ``None``: there is no semantic layer.

    Raises:
        ConfigError: They contradict each other, or an embedder is named that is not installed.
    """
    if not wants_semantic(settings):
        return None
    from stepwell.assembly.deciding import calibration_of  # noqa: PLC0415  (an extra)

    table = settings.semantic
    return calibration_of(table, embedder_name(settings), compares=table.comparison == "auto")


def with_measured(settings: Settings) -> Settings:
    """Return ``settings`` with levels, reuse similarity and threads filled in.

    Raises:
        ConfigError: As `calibration_in_force`.
    """
    calibration, table = calibration_in_force(settings), settings.semantic
    if calibration is None:
        return settings
    least = calibration.min_similarity
    filled = replace(
        table,
        levels=Levels(strict=least["strict"], general=least["general"], faq=least["faq"]),
        reuse_similarity=calibration.reuse_similarity,
        # An endpoint has threads of its own.
        threads=threads_of(table) if table.endpoint is None else table.threads,
    )
    return replace(settings, semantic=filled)
