"""The two policies on hand-made pairs."""

from dataclasses import dataclass
from typing import get_args

import pytest

from stepwell.core.errors import ConfigError
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, Level, PairId
from stepwell.semantic.acceptance.boundary import Boundary, Prior
from stepwell.semantic.acceptance.calibration import UNCALIBRATED, Calibration, packaged
from stepwell.semantic.acceptance.threshold import Threshold
from stepwell.semantic.acceptance.verdict import Accepted, Pair, Refused
from stepwell.semantic.acceptance.verified import Verified
from stepwell.semantic.evidence import MAX_OBSERVATIONS, MIN_OBSERVATIONS, Evidence
from stepwell.semantic.valve.reading import read
from stepwell.testing.entries import make_judgement, make_key

KEY = make_key("entry")
LEVELS = Calibration({"strict": 0.97, "general": 0.9, "faq": 0.8}, 0.7)


def pair(similarity: float, asked: str = "a way to return shoes") -> Pair:
    return Pair(KEY, read(asked), read("how do I return shoes"), similarity)


@dataclass(frozen=True)
class Known:
    """Knows one boundary, whatever the entry."""

    known: Boundary | None

    def boundary(self, key: CacheKey) -> Boundary | None:
        return self.known


LOW = Boundary(0.7, 60.0, 0.005)
"""Sure, and far below."""
HIGH = Boundary(0.95, 60.0, 0.005)


@pytest.mark.parametrize("policy", [Threshold(LEVELS), Verified(LEVELS, Known(None))])
@pytest.mark.parametrize(
    ("similarity", "level", "own", "accepted"),
    [
        (0.95, "general", 0.0, True),
        (0.9, "general", 0.0, True),
        (0.89, "general", 0.0, False),
        (0.89, "faq", 0.0, True),
        (0.95, "strict", 0.0, False),
        (0.95, "general", 0.96, False),
        (0.85, "general", 0.1, False),
    ],
)
def test_levels(
    policy: Threshold | Verified,
    similarity: float,
    level: Level,
    own: float,
    accepted: bool,  # noqa: FBT001
) -> None:
    """As similar as the level demands; while nothing was judged, both decide alike."""
    verdict = policy.judge(pair(similarity), level, own)
    assert isinstance(verdict, Accepted) == accepted
    if isinstance(verdict, Refused):
        assert verdict.by == "similarity"


def test_an_entry_that_is_sure_answers_what_is_farther() -> None:
    """But not what is beyond the loosest level, or below the caller's own bound."""
    policy = Verified(LEVELS, Known(LOW))
    assert isinstance(policy.judge(pair(0.85), "general", 0.0), Accepted)
    assert isinstance(policy.judge(pair(0.85), "strict", 0.0), Accepted)
    assert isinstance(policy.judge(pair(0.79), "general", 0.0), Refused)
    assert isinstance(policy.judge(pair(0.85), "general", 0.86), Refused)


@pytest.mark.parametrize("policy", [Threshold(LEVELS), Verified(LEVELS, Known(None))])
def test_what_is_too_far_is_told_what_its_level_demands(policy: Threshold | Verified) -> None:
    """Not how far an entry of its own right may go."""
    assert policy.too_far(0.7, "general", 0.0) == Refused("similarity", "below 0.900")
    assert policy.too_far(0.7, "general", 0.95) == Refused("similarity", "below 0.950")
    assert policy.too_far(0.9, "general", 0.0) is None


def test_an_entry_that_failed_refuses_what_is_near() -> None:
    """Its judged hits say that this near is not near enough."""
    policy = Verified(LEVELS, Known(HIGH))
    verdict = policy.judge(pair(0.96), "general", 0.0)
    assert verdict == Refused("judged", "judged hits: right from 0.950 on")
    assert isinstance(policy.judge(pair(0.85), "faq", 0.0), Refused)


def judged(count: int, similarity: float, verdict: Verdict) -> list[Judgement]:
    return [
        make_judgement(PairId(bytes([number] * 16)), KEY, similarity, verdict)
        for number in range(count)
    ]


def test_evidence_counts_from_a_few_judgements_on() -> None:
    """Fewer say nothing; a pair counts once."""
    evidence = Evidence(Prior(0.8))
    evidence.load(judged(MIN_OBSERVATIONS - 1, 0.9, Verdict.RIGHT))
    assert evidence.boundary(KEY) is None
    evidence.note(judged(1, 0.9, Verdict.RIGHT)[0])
    assert evidence.boundary(KEY) is None
    evidence.load(judged(MIN_OBSERVATIONS, 0.9, Verdict.RIGHT))
    right = evidence.boundary(KEY)
    evidence.load(judged(MIN_OBSERVATIONS, 0.9, Verdict.WRONG))
    wrong = evidence.boundary(KEY)
    assert right is not None
    assert wrong is not None
    assert right.middle < 0.8 < wrong.middle
    assert evidence.boundary(make_key("another")) is None


def test_evidence_is_bounded() -> None:
    """The oldest judgements of an entry leave first."""
    evidence = Evidence(Prior(0.8))
    evidence.load(judged(MAX_OBSERVATIONS, 0.9, Verdict.WRONG))
    before = evidence.boundary(KEY)
    for number in range(100, 100 + MAX_OBSERVATIONS):
        evidence.note(make_judgement(PairId(bytes([number] * 16)), KEY, 0.9, Verdict.RIGHT))
    after = evidence.boundary(KEY)
    fresh = Evidence(Prior(0.8))
    fresh.load(judged(MAX_OBSERVATIONS, 0.9, Verdict.RIGHT))
    assert before is not None
    assert after == fresh.boundary(KEY)


@pytest.mark.parametrize(
    ("levels", "reuse"),
    [
        ({"strict": 0.9, "general": 0.95, "faq": 0.8}, 0.7),
        ({"strict": 0.9, "general": 0.8, "faq": 0.85}, 0.7),
        ({"strict": 1.9, "general": 0.8, "faq": 0.7}, 0.7),
        ({"strict": 0.9, "general": 0.8, "faq": -0.1}, 0.7),
        ({"strict": 0.9, "general": 0.8}, 0.7),
        ({"strict": 0.9, "general": 0.8, "faq": 0.7}, float("nan")),
    ],
)
def test_levels_that_contradict(levels: dict[Level, float], reuse: float) -> None:
    """Out of range, out of order, missing: refused with the setting's name."""
    with pytest.raises(ConfigError, match=r"semantic\."):
        Calibration(levels, reuse)


def test_packaged_calibrations() -> None:
    """The bundled embedder's levels were measured; another model's are cautious."""
    measured = packaged("multilingual-e5-small@0123456789abcdef")
    assert measured is not None
    assert measured.min_similarity["general"] < UNCALIBRATED.min_similarity["general"]
    assert measured.compared is None
    assert packaged("some-model@0123") is None


def test_a_comparison_makes_up_for_similarity() -> None:
    """What cannot be compared must be as similar as without it."""
    alone = packaged("multilingual-e5-small@0123456789abcdef")
    compared = packaged("multilingual-e5-small@0123456789abcdef", compares=True)
    assert alone is not None
    assert compared is not None
    assert compared.compared is not None
    for level in get_args(Level):
        assert compared.min_similarity[level] < alone.min_similarity[level]
        assert compared.compared.min_similarity[level] >= alone.min_similarity[level]
