"""An embedder made by hand, and what the study builds on it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepwell.assembly.settings import Settings
from stepwell.assembly.study import StudyParts
from stepwell.core.errors import EmbeddingError
from stepwell.core.names import Level
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.keys.cache_key import KeyScheme
from stepwell.policy.classes import BUILT_IN_CLASSES
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.acceptance.verdict import TOO_FAR, Accepted, Pair, Refused, Verdict
from stepwell.study.arm import Semantics
from stepwell.study.remembering import RememberingEmbedder
from stepwell.study.rules import Rules
from stepwell.study.texts import Texts

LEVELS = Calibration({"strict": 0.99, "general": 0.9, "faq": 0.8}, 0.7)
SCHEME = KeyScheme("test")
RULES = Rules(SCHEME, BUILT_IN_CLASSES, ())


@dataclass
class AngleEmbedder:
    """Places a text at the angle, in degrees, that stands after its ``@``; else at its length.

    A text with ``unknown`` in it has no vector; at one with ``broken`` the embedder fails.
    """

    calls: list[list[str]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    model_id: str = "angles@1"
    dimensions: int = 2

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.calls.append(list(texts))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if any("broken" in text for text in texts):
            raise EmbeddingError("out of order")
        angles = np.radians([_angle(text) for text in texts])
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        return Embeddings(vectors, tuple(_unfit(text) for text in texts))

    async def aclose(self) -> None:
        pass

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]


@dataclass
class HandComparer:
    """Scores a pair as the test says of its second text; what it does not know, it cannot tell."""

    scores: dict[str, float] = field(default_factory=dict)
    failing: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def score(
        self, one: str, other: str, *, within_seconds: float | None = None
    ) -> float | None:
        self.asked.append((one, other))
        if other == self.failing:
            raise EmbeddingError("out of order")
        return self.scores.get(other)


def _angle(text: str) -> float:
    _, _, angle = text.rpartition("@")
    return float(angle) if angle.replace(".", "").isdigit() else float(len(text))


def _unfit(text: str) -> Unfit | None:
    if not text.strip():
        return Unfit.EMPTY
    return Unfit.UNKNOWN_TOKENS if "unknown" in text else None


@dataclass(frozen=True)
class NearEnough:
    """Accepts what is near enough. The safety valve would find numbers in the angles."""

    def too_far(self, similarity: float, level: Level, min_similarity: float) -> Refused | None:
        least = max(LEVELS.min_similarity[level], min_similarity)
        return Refused(TOO_FAR, f"below {least}") if similarity < least else None

    def judge(self, pair: Pair, level: Level, min_similarity: float) -> Verdict:
        return self.too_far(pair.similarity, level, min_similarity) or Accepted()


def semantics(embedder: AngleEmbedder | None = None) -> Semantics:
    known = RememberingEmbedder(embedder or AngleEmbedder())
    return Semantics(lambda _: NearEnough(), LEVELS, Texts(known))


def placed(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"file line {number}", row) for number, row in enumerate(rows, 1))


@asynccontextmanager
async def hand_made_parts(settings: Settings) -> Any:
    """Stands for `stepwell.cli.studying.open_parts`."""
    yield StudyParts(AngleEmbedder(), lambda _: NearEnough(), LEVELS, None, None, 0.1)
