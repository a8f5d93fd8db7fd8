"""Levels, calibrated: which similarity a level means depends on the embedder."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import get_args

import msgspec

from stepwell.core.errors import ConfigError
from stepwell.core.names import Level
from stepwell.semantic.acceptance.boundary import Prior


@dataclass(frozen=True, slots=True)
class Compared:
    """What the levels ask of the comparison of the best candidate, beside its similarity."""

    min_score: Mapping[Level, float]
    """Least score, in [0, 1]."""
    min_similarity: Mapping[Level, float]
    """Least cosine of texts that cannot be compared."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the levels mean for one embedder."""

    min_similarity: Mapping[Level, float]
    """Least cosine at which an answer may be given, in [0, 1], stricter levels first."""
    reuse_similarity: float
    """Least cosine at which a question is near enough to be worth a hint to the prefix layer."""
    prior: Prior = Prior(0.8)  # noqa: RUF009  (frozen)
    """Where an entry's boundary is expected before a hit of it was judged."""
    max_error: Mapping[Level, float] = field(default_factory=lambda: dict(_MAX_ERROR))
    """Largest share of wrong hits that a level stands for."""
    compared: Compared | None = None
    """``None``: the texts of candidates are not compared."""

    def __post_init__(self) -> None:
        for level in get_args(Level):
            if level not in self.min_similarity:
                raise ConfigError(f"semantic.levels.{level} is missing; give a number from 0 to 1")
            _check(f"semantic.levels.{level}", self.min_similarity[level])
        _check("semantic.reuse_similarity", self.reuse_similarity)
        strict, general, faq = (self.min_similarity[level] for level in get_args(Level))
        if not strict >= general >= faq:
            raise ConfigError(
                f"semantic.levels are strict {strict}, general {general}, faq {faq}; "
                "allowed: strict >= general >= faq"
            )


def _check(key: str, similarity: float) -> None:
    if not (math.isfinite(similarity) and 0 <= similarity <= 1):
        raise ConfigError(
            f"{key} is {similarity!r}; allowed: a cosine similarity from 0 to 1 (not a distance)"
        )


_MAX_ERROR: Mapping[Level, float] = {"strict": 0.005, "general": 0.02, "faq": 0.05}

UNCALIBRATED = Calibration({"strict": 0.99, "general": 0.97, "faq": 0.95}, 0.8)
"""For an embedder nobody has measured: what is safe for the raw cosines of most models, and seldom
a hit. `stepwell tune` finds better ones."""


class _Level(msgspec.Struct, forbid_unknown_fields=True):
    similarity: float
    score: float
    uncompared: float


class _File(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    reuse: float
    middle: float
    steepness: float
    alone: dict[Level, float]
    compared: dict[Level, _Level] | None = None


def packaged(model: str, *, compares: bool = False) -> Calibration | None:
    """Return what was measured for ``model``, the name in front of a `model_id`'s first ``@``.

    Args:
        model: Of the vectors.
        compares: Whether the embedder compares the best candidate's text as well.
    """
    name = model.partition("@")[0]
    for path in (resources.files(__package__) / "measured").iterdir():
        if path.name.endswith(".toml"):
            found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File)
            if found.model == name:
                return _calibration(found, compares=compares)
    return None


def _calibration(found: _File, *, compares: bool) -> Calibration:
    prior = Prior(found.middle, found.steepness)
    if found.compared is None or not compares:
        return Calibration(found.alone, found.reuse, prior)
    levels = found.compared.items()
    return Calibration(
        {level: asked.similarity for level, asked in levels},
        found.reuse,
        prior,
        compared=Compared(
            {level: asked.score for level, asked in levels},
            {level: asked.uncompared for level, asked in levels},
        ),
    )
