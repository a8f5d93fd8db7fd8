"""Boundaries learned from judged hits."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.acceptance.boundary import Boundary, Observation, Prior, fit

PRIOR = Prior(0.85)

observations = st.lists(st.builds(Observation, st.floats(0, 1), st.booleans()), max_size=40)


def right_from(middle: float, *similarities: float) -> list[Observation]:
    return [Observation(similarity, similarity >= middle) for similarity in similarities]


def test_without_observations_the_prior_stands() -> None:
    """And nothing is sure that the prior does not make sure."""
    boundary = fit([], PRIOR)
    assert boundary.middle == pytest.approx(PRIOR.middle)
    assert boundary.steepness == pytest.approx(PRIOR.steepness)
    assert boundary.middle_deviation == pytest.approx(PRIOR.middle_deviation)


def test_the_middle_moves_to_where_right_and_wrong_meet() -> None:
    """And the estimate gets surer with each observation."""
    seen = right_from(0.92, 0.80, 0.84, 0.88, 0.90, 0.91, 0.93, 0.94, 0.96)
    few, many = fit(seen[3:6], PRIOR), fit(seen * 4, PRIOR)
    assert many.middle == pytest.approx(0.92, abs=0.01)
    assert many.middle_deviation < few.middle_deviation < PRIOR.middle_deviation


def test_what_is_sure_is_less_than_what_is_likely() -> None:
    """A pessimist's chance never exceeds the most probable one, and grows with similarity."""
    boundary = fit(right_from(0.85, 0.8, 0.83, 0.87, 0.9), PRIOR)
    chances = [boundary.surely_right(step / 100) for step in range(101)]
    assert chances == sorted(chances)
    for step, chance in enumerate(chances):
        assert 0 <= chance <= boundary.likely_right(step / 100)


@given(observations)
def test_any_observations_give_a_finite_boundary(seen: list[Observation]) -> None:
    """Also where all are alike, contradict each other, or lie at the ends."""
    boundary = fit(seen, PRIOR)
    numbers = (boundary.middle, boundary.steepness, boundary.middle_deviation)
    assert all(map(math.isfinite, numbers))
    assert boundary.steepness > 0
    assert 0 < boundary.middle_deviation <= PRIOR.middle_deviation * 1.001
    assert 0 <= boundary.surely_right(0.9) <= 1


def test_extreme_boundaries_do_not_overflow() -> None:
    """Chances stay chances."""
    steep = Boundary(0.5, 1e6, 1e-9)
    assert steep.likely_right(0.4) == pytest.approx(0.0)
    assert steep.likely_right(0.6) == pytest.approx(1.0)


@pytest.mark.parametrize(("max_error", "seed"), [(0.02, 1), (0.05, 2), (0.1, 3)])
def test_the_error_per_hit_is_bounded(max_error: float, seed: int) -> None:
    """Over entries whose true boundaries the prior does not know, and questions at random.

    Several hundred hits: they show half of the bound at most, so it is not met by luck.
    """
    chance = random.Random(seed)
    hits = wrong = 0
    for _ in range(40):
        middle, steepness = chance.uniform(0.75, 0.95), chance.uniform(20, 60)
        seen: list[Observation] = []
        boundary = fit(seen, PRIOR)
        for _ in range(80):
            similarity = chance.uniform(0.7, 1.0)
            truth = 1 / (1 + math.exp(-steepness * (similarity - middle)))
            right = chance.random() < truth
            if len(seen) >= 4 and boundary.surely_right(similarity) >= 1 - max_error:
                hits += 1
                wrong += not right
            else:
                seen.append(Observation(similarity, right))
                boundary = fit(seen, PRIOR)
    assert hits > 200
    assert wrong / hits <= max_error
