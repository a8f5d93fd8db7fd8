"""Intervals and clusters, against values worked out elsewhere."""

import numpy as np
import pytest

from stepwell.policy.intervals import ANYWHERE, needed_for, wilson
from stepwell.study.statistics import bootstrap, clusters_of


@pytest.mark.parametrize(
    ("good", "total", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson(good: int, total: int, low: float, high: float) -> None:
    found = wilson(good, total)
    assert found.low == pytest.approx(low, abs=5e-5)
    assert found.high == pytest.approx(high, abs=5e-5)


def test_wilson_of_nothing_and_of_all() -> None:
    """Nothing counted says nothing; all good does not say that all are."""
    assert wilson(0, 0) == ANYWHERE
    assert wilson(10, 10).high == 1.0
    assert wilson(10, 10).low == pytest.approx(0.7225, abs=5e-5)


@pytest.mark.parametrize("target", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_needed_is_the_least_that_is_enough(target: float) -> None:
    needed = needed_for(target)
    assert wilson(needed, needed).low >= target
    assert wilson(needed - 1, needed - 1).low < target


def test_needed_for_certainty() -> None:
    """No count shows that a share is 1."""
    with pytest.raises(ValueError, match="no number"):
        needed_for(1.0)


def test_bootstrap_of_single_pairs_is_near_the_normal_interval() -> None:
    """Where each pair is its own cluster, drawing clusters is drawing pairs."""
    good = np.array([[1.0]] * 300 + [[0.0]] * 100)
    (found,) = bootstrap(good, np.ones((400, 1)))
    spread = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert found.low == pytest.approx(0.75 - spread, abs=0.012)
    assert found.high == pytest.approx(0.75 + spread, abs=0.012)


def test_bootstrap_is_wider_where_pairs_hang_together() -> None:
    """Ten pairs that are right or wrong together are not ten."""
    single = np.array([[1.0]] * 300 + [[0.0]] * 100)
    together = np.array([[10.0]] * 30 + [[0.0]] * 10)
    (narrow,) = bootstrap(single, np.ones((400, 1)))
    (wide,) = bootstrap(together, np.full((40, 1), 10.0))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_bootstrap_gives_the_same_again() -> None:
    good, total = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.ones((3, 2))
    assert bootstrap(good, total) == bootstrap(good, total)
    assert bootstrap(np.zeros((0, 2)), np.zeros((0, 2))) == [ANYWHERE, ANYWHERE]


def test_clusters_grow_together_over_shared_texts() -> None:
    pairs = [("a", "b"), ("c", "d"), ("b", "e"), ("x", "y"), ("e", "d")]
    assert clusters_of(pairs) == [0, 0, 0, 1, 0]
