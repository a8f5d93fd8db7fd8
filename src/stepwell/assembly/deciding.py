"""What decides whether other words have the same answer, as the settings have it.

No numpy here: settings are checked by it before anything is started.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stepwell.assembly.settings_semantic import Semantic
from stepwell.core.names import Level
from stepwell.semantic.acceptance.calibration import UNCALIBRATED, Calibration, Compared, packaged
from stepwell.semantic.acceptance.threshold import Threshold
from stepwell.semantic.acceptance.verdict import Acceptance
from stepwell.semantic.acceptance.verified import Boundaries, Verified
from stepwell.semantic.valve.antonym import compare_by
from stepwell.semantic.valve.opposites import read_opposites
from stepwell.semantic.valve.valve import CHECKS, Check


def calibration_of(table: Semantic, model_id: str, *, compares: bool = False) -> Calibration:
    """Return what the levels mean: as set, else as measured for the model, else with caution.

    Args:
        table: The settings.
        model_id: Of the vectors.
        compares: Whether the best candidate's text is compared as well.

    Raises:
        ConfigError: They contradict each other.
    """
    found = packaged(model_id, compares=compares) or UNCALIBRATED
    given: dict[Level, float] = {
        "strict": _or(table.levels.strict, found.min_similarity["strict"]),
        "general": _or(table.levels.general, found.min_similarity["general"]),
        "faq": _or(table.levels.faq, found.min_similarity["faq"]),
    }
    return replace(
        found,
        min_similarity=given,
        reuse_similarity=_or(table.reuse_similarity, found.reuse_similarity),
        compared=None if found.compared is None else _at_least(found.compared, given),
    )


def _at_least(compared: Compared, given: Mapping[Level, float]) -> Compared:
    """Ask of texts that cannot be compared no less than of those that can."""
    alone = {level: max(least, given[level]) for level, least in compared.min_similarity.items()}
    return replace(compared, min_similarity=alone)


def make_acceptance(
    table: Semantic, calibration: Calibration, boundaries: Boundaries
) -> Acceptance:
    """Return what decides about candidates."""
    match table.policy:
        case "threshold":
            return Threshold(calibration, checks_of(table))
        case "verified":
            return Verified(calibration, boundaries, checks_of(table))


def checks_of(table: Semantic) -> tuple[Check, ...]:
    """Return what the safety valve asks: all it can, and the user's own opposites.

    Raises:
        ConfigError: These cannot be read.
    """
    if table.opposites is None:
        return CHECKS
    return (*CHECKS, compare_by(read_opposites(Path(table.opposites).expanduser())))


def _or(given: float | None, measured: float) -> float:
    return measured if given is None else given
