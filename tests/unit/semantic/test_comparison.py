"""A closer look at a match: by score, in time, and what cannot be compared."""

from dataclasses import dataclass

import pytest
from support.walk import Heard

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.events import Degraded
from stepwell.core.likeness import Match
from stepwell.core.names import Level
from stepwell.semantic.acceptance.calibration import Compared
from stepwell.semantic.acceptance.verdict import Refused
from stepwell.semantic.comparison import Comparison
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_key

LEVELS = Compared(
    {"strict": 0.8, "general": 0.6, "faq": 0.5}, {"strict": 0.97, "general": 0.88, "faq": 0.84}
)
MATCH = Match(make_key("stored"), "stored", 0.9)


@dataclass
class Comparer:
    """Says what the test says."""

    told: float | Exception | None
    within_seconds: float | None = None
    """How long the last to ask would have waited."""

    async def score(
        self, one: str, other: str, *, within_seconds: float | None = None
    ) -> float | None:
        self.within_seconds = within_seconds
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


async def doubt(
    comparer: Comparer, level: Level = "general", *, spent: float = 0.0, asked: str = "asked"
) -> tuple[Refused | None, int]:
    """Return the doubt and how many failures were told, after ``spent`` seconds of the lookup."""
    clock, events = HandClock(), Heard()
    comparison = Comparison(comparer, LEVELS, budget_seconds=0.05, clock=clock, events=events)
    started = clock.monotonic()
    clock.seconds += spent
    found = await comparison.doubt(asked, MATCH, level, started)
    return found, len(events.of(Degraded))


@pytest.mark.parametrize(
    ("score", "passes"),
    [(0.9, {"strict", "general", "faq"}), (0.6, {"general", "faq"}), (0.55, {"faq"}), (0.1, set())],
)
async def test_each_level_has_its_score(score: float, passes: set[Level]) -> None:
    levels: tuple[Level, ...] = ("strict", "general", "faq")
    assert {level for level in levels if (await doubt(Comparer(score), level))[0] is None} == passes


async def test_a_refusal_tells_the_score() -> None:
    assert await doubt(Comparer(0.314)) == (Refused("comparison", "score 0.31 below 0.6"), 0)


async def test_what_cannot_be_compared_must_be_more_similar() -> None:
    assert (await doubt(Comparer(None), "general"))[0] is None
    refused, _ = await doubt(Comparer(None), "strict")
    assert refused == Refused("comparison", "cannot be compared, and below 0.970")


@pytest.mark.parametrize("error", [EmbeddingError("gone"), EmbeddingTimeout("late")])
async def test_what_was_not_compared_is_refused(error: EmbeddingError) -> None:
    """And told."""
    refused, failures = await doubt(Comparer(error))
    assert refused is not None
    assert refused.by == "comparison"
    assert failures == 1


@pytest.mark.parametrize(
    ("spent", "left"), [(0.0, 0.05), (0.01, 0.04), (0.04, 0.0125), (9, 0.0125)]
)
async def test_it_has_what_is_left_of_the_lookups_time(spent: float, left: float) -> None:
    """At least a quarter of it: if it was spent before, the loop was busy, and not the embedder."""
    comparer = Comparer(1.0)
    assert await doubt(comparer, spent=spent) == (None, 0)
    assert comparer.within_seconds == pytest.approx(left)


async def test_the_same_words_need_no_comparison() -> None:
    """As at another temperature; even when there is no time left, or no embedder."""
    comparer = Comparer(EmbeddingError("gone"))
    assert await doubt(comparer, "strict", spent=10.0, asked=MATCH.text) == (None, 0)
