"""The judge that compares the meaning of answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from support.judges import Deaf

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.judging import Said, ToolCall
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.judges.embedding import SHORT_CHARACTERS, Differences, EmbeddingJudge
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import Reading

LEVELS = Calibration({"strict": 0.99, "general": 0.9, "faq": 0.8}, 0.7)


@dataclass
class HandEmbedder:
    """Places texts so that any two have the similarity that the test gives."""

    similarity: float
    unfit: Unfit | None = None
    failing: bool = False
    late: int = 0
    """How often it is, before it is in time."""
    model_id: str = "hand"
    dimensions: int = 2
    asked: list[str] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        if self.failing:
            raise EmbeddingError("out of order")
        if self.late:
            self.late -= 1
            raise EmbeddingTimeout("not within 0.2 s")
        angle = np.arccos(self.similarity)
        vectors = np.array([[1, 0], [np.cos(angle), np.sin(angle)]], np.float32)
        return Embeddings(vectors, (None, self.unfit))

    async def aclose(self) -> None:
        """Do nothing."""


def differ_in(kind: Kind | None) -> Differences:
    def differences(asked: Reading, stored: Reading) -> Iterator[Difference]:
        yield Difference(Kind.QUESTION, "how", "when")
        if kind is not None:
            yield Difference(kind, "30", "14")

    return differences


async def test_it_asks_again_while_the_embedder_is_late() -> None:
    """Nobody waits for it, and its caller bounds its time."""
    embedder = HandEmbedder(0.95, late=3)
    judge = EmbeddingJudge(embedder, LEVELS, differ_in(None))
    assert await judge.same("how long", Said("a"), Said("b"), Deaf()) is True
    assert embedder.asked == ["a", "b"] * 4


@pytest.mark.parametrize(
    ("similarity", "kind", "characters", "expected"),
    [
        (0.95, None, 20, True),
        (0.80, None, 20, None),
        (0.50, None, 20, None),
        (0.40, None, 20, False),
        (0.95, Kind.NUMBER, 20, False),
        (0.95, Kind.NEGATION, 20, False),
        (0.95, Kind.DATE, 20, False),
        (0.95, Kind.NUMBER, SHORT_CHARACTERS + 1, None),
        (0.95, Kind.ENTITY, 20, True),
    ],
)
async def test_near_and_far(
    similarity: float,
    kind: Kind | None,
    characters: int,
    expected: bool | None,  # noqa: FBT001
) -> None:
    """Near is a yes, far is a no; a number tells short answers apart, not long ones."""
    judge = EmbeddingJudge(HandEmbedder(similarity), LEVELS, differ_in(kind))
    one, other = Said("a" * characters), Said("b" * characters)
    assert await judge.same("?", one, other, Deaf()) is expected


async def test_what_is_not_embedded() -> None:
    """Equal answers and tool calls; what is over the window is not judged; failures are told."""
    embedder = HandEmbedder(0.0)
    judge = EmbeddingJudge(embedder, LEVELS, differ_in(None))
    call = (ToolCall("f", "{}"),)
    assert await judge.same("?", Said("a", call), Said("a", call), Deaf()) is True
    assert await judge.same("?", Said("a", call), Said("a"), Deaf()) is False
    assert embedder.asked == []
    embedder.unfit = Unfit.OVER_WINDOW
    assert await judge.same("?", Said("a"), Said("b"), Deaf()) is None
    embedder.failing = True
    with pytest.raises(EmbeddingError):
        await judge.same("?", Said("a"), Said("b"), Deaf())
