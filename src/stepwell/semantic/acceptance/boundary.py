"""What judged hits say about one entry: where its similarity boundary lies, and how surely.

The model of vCache (Schroeder et al., arXiv 2502.03771): the chance that an entry's answer is
right for a question of similarity s is ``sigmoid(steepness * (s - middle))``, with a middle and a
steepness of the entry's own. Here they are fitted with a prior, so that a handful of judgements,
all alike, still give finite estimates, and the bound is on the error *per hit*: serve if and only
if the chance, taken at a pessimistic end of the estimate, is at least ``1 - delta``. (The paper's
rule serves at random, and bounds the error per *request*.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple


class Observation(NamedTuple):
    """A judged hit of one entry."""

    similarity: float
    right: bool


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of an entry before anybody judged a hit of it."""

    middle: float
    """Similarity at which its answers are right half of the time."""
    steepness: float = 40.0
    """The higher, the narrower is the stretch in which right and wrong mix."""
    middle_deviation: float = 0.08
    steepness_deviation: float = 0.5
    """Standard deviations, of the middle and of the steepness's logarithm."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """An estimate of an entry's middle and steepness."""

    middle: float
    steepness: float
    middle_deviation: float
    """Standard deviation of the estimate of the middle."""

    def likely_right(self, similarity: float) -> float:
        """Return the most probable chance that the answer is right."""
        return _sigmoid(self.steepness * (similarity - self.middle))

    def surely_right(self, similarity: float) -> float:
        """Return a chance that is at most the true one, at the best level of confidence.

        For each level, the middle is at most so much higher, and with the rest of the probability
        nothing is known: the chance is counted as 0 there. The best of the levels is taken.
        """
        return max(
            (1.0 - doubt)
            * _sigmoid(self.steepness * (similarity - self.middle - far * self.middle_deviation))
            for doubt, far in _LEVELS
        )


def fit(observations: Sequence[Observation], prior: Prior) -> Boundary:
    """Return the most probable boundary after ``observations``.

    Newton's method on the logarithm of the posterior, in the middle and the logarithm of the
    steepness; the deviation is Laplace's: the inverse of the curvature. Costs some 20 us and a
    microsecond for each observation.
    """
    middle, log_steepness = prior.middle, math.log(prior.steepness)
    for _ in range(_STEPS):
        slope, curve = _posterior(observations, prior, middle, log_steepness)
        (a, b), (_, d) = curve
        determinant = a * d - b * b
        step_middle = (d * slope[0] - b * slope[1]) / determinant
        step_log = (a * slope[1] - b * slope[0]) / determinant
        # Bounded steps: far from the optimum the curvature says little.
        middle += max(-_MAX_STEP, min(_MAX_STEP, step_middle))
        log_steepness += max(-0.5, min(0.5, step_log))
        if abs(step_middle) < _CLOSE and abs(step_log) < _CLOSE:
            break
    _, ((a, b), (_, d)) = _posterior(observations, prior, middle, log_steepness)
    variance = d / (a * d - b * b)
    return Boundary(middle, math.exp(log_steepness), math.sqrt(variance))


_STEPS = 50
_MAX_STEP = 0.02
_CLOSE = 1e-6

_DOUBTS: list[float] = [10.0 ** (-5 + 0.15 * step) for step in range(30)]
_LEVELS = [(doubt, NormalDist().inv_cdf(1.0 - doubt)) for doubt in _DOUBTS]
"""Probabilities that the middle is still higher, and by how many deviations: dense near 0, where
strict bounds need them."""

_Curve = tuple[tuple[float, float], tuple[float, float]]


def _posterior(
    observations: Sequence[Observation], prior: Prior, middle: float, log_steepness: float
) -> tuple[tuple[float, float], _Curve]:
    """Return slope and (negative, expected) curvature of the log posterior.

    The expected curvature (Fisher's information) is never negative, so that every step leads up.
    """
    steepness = math.exp(log_steepness)
    off_middle = (middle - prior.middle) / prior.middle_deviation**2
    off_log = (log_steepness - math.log(prior.steepness)) / prior.steepness_deviation**2
    slope_middle, slope_log = -off_middle, -off_log
    a, b, d = 1.0 / prior.middle_deviation**2, 0.0, 1.0 / prior.steepness_deviation**2
    for similarity, right in observations:
        argument = steepness * (similarity - middle)
        chance = _sigmoid(argument)
        surprise = float(right) - chance
        slope_middle -= surprise * steepness
        slope_log += surprise * argument
        weight = max(chance * (1.0 - chance), 1e-9)
        a += weight * steepness * steepness
        b -= weight * steepness * argument
        d += weight * argument * argument
    return (slope_middle, slope_log), ((a, b), (b, d))


def _sigmoid(argument: float) -> float:
    if argument >= 0:
        return 1.0 / (1.0 + math.exp(-min(argument, 700.0)))
    power = math.exp(max(argument, -700.0))
    return power / (1.0 + power)
