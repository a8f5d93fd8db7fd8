"""Which similarity a level needs, from labelled pairs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import tomli_w

from stepwell.core.names import Level
from stepwell.policy.intervals import Interval, needed_for, wilson
from stepwell.study.curve import Curve, CurvePoint, draw
from stepwell.study.labels import Measured
from stepwell.study.statistics import clusters_of
from stepwell.study.terminal import digits, plain

TARGETS: Mapping[Level, float] = {"strict": 0.99, "general": 0.95, "faq": 0.9}
"""Of a hundred answers given to other words, how many must be right."""

FOLDS = 5
_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What the way of choosing is worth: each pair was judged by a level chosen without it."""

    hits: int
    right: int
    precision: Interval
    """By Wilson."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is recommended for one level."""

    level: Level
    target: float
    """Least precision."""
    similarity: float
    in_force: float
    """The similarity of today."""
    point: CurvePoint | None
    """What it does; ``None`` if the labels show no similarity to be enough."""
    held_out: HeldOut | None
    """``None`` as above, or where a part of the labels is too small to choose by."""
    why: str

    @property
    def short(self) -> str:
        """Why, in a few words."""
        if self.point is not None:
            return f"{self.target:.1%} right"
        if self.similarity == self.in_force:
            return "not shown by the labels; as in force"
        return (
            f"not shown by the labels; raised from {digits(self.in_force)} to what a looser level"
            " needs"
        )


def recommend(
    pairs: Mapping[Level, Sequence[Measured]],
    targets: Mapping[Level, float],
    in_force: Mapping[Level, float],
) -> list[Recommendation]:
    """Return for each level the least similarity whose precision is surely the target or more.

    Surely: by the lower end of the 95 % interval, of Wilson's or the clusters', whichever is
    lower. Where the labels do not show it for any, what is in force stays, unless that is less
    than a looser level is shown to need: levels that are not in order are no settings.

    Args:
        pairs: The labelled pairs, as each level sees them.
        targets: Least precision of each level, in [0, 1).
        in_force: The similarities of today.
    """
    recommendations: list[Recommendation] = []
    least = 0.0
    # From the loosest on: a stricter level must not ask for less.
    for level in reversed(get_args(Level)):
        recommended = _recommend(level, pairs[level], targets[level], in_force[level], least)
        least = recommended.similarity
        recommendations.append(recommended)
    return recommendations[::-1]


def _recommend(
    level: Level,
    pairs: Sequence[Measured],
    target: float,
    in_force: float,
    least: float,
) -> Recommendation:
    curve = draw(pairs, with_valve=True)
    found = choose(curve, target)
    if found is None:
        similarity = max(in_force, least)
        why = f"{_what_is_missing(curve, target)} {_what_becomes_of(in_force, least)}"
        return Recommendation(level, target, similarity, in_force, None, None, why)
    held_out = _held_out(pairs, target)
    if found.similarity < least:
        raised = next((p for p in curve.points if p.similarity >= least), found)
        why = f"{digits(found.similarity)} would do, but a looser level needs {digits(least)}."
        return Recommendation(level, target, least, in_force, raised, held_out, why)
    why = (
        f"The least similarity at which {found.right:,} of {found.hits:,} hits are right,"
        f" so {found.sure:.1%} or more at 95 % confidence."
    )
    return Recommendation(level, target, found.similarity, in_force, found, held_out, why)


def choose(curve: Curve, target: float) -> CurvePoint | None:
    """Return the point of least similarity that is surely at ``target``, or ``None``."""
    return next((point for point in curve.points if point.sure >= target), None)


def _what_is_missing(curve: Curve, target: float) -> str:
    """Say what would have to be labelled."""
    needed = needed_for(target)
    # Of the points with enough hits, how near is the best?
    best = max((point.sure for point in curve.points), default=0.0)
    most = max((point.hits for point in curve.points), default=0)
    if most < needed:
        share = most / curve.pairs if curve.pairs else 0.0
        more = (
            f"; at {share:.0%} hits among pairs that is some {needed / share:,.0f} labels"
            if share
            else ""
        )
        return (
            f"Too few labels: {target:.1%} takes {needed:,} hits without a single error,"
            f" and there are {most:,} hits at most{more}."
        )
    return (
        f"No similarity is enough: the surest has {best:.1%} or more."
        f" {target:.1%} takes at least {needed:,} hits without a single error;"
        " label more pairs of the most similar kind, or look at what is wrong among them."
    )


def _what_becomes_of(in_force: float, least: float) -> str:
    """Say what a level is that the labels do not show."""
    if in_force >= least:
        return "What is in force stays."
    return (
        f"What is in force, {digits(in_force)}, cannot stay: a looser level needs {digits(least)},"
        " and a stricter one must not ask for less."
    )


def _held_out(pairs: Sequence[Measured], target: float) -> HeldOut | None:
    """Choose on four fifths and count on the other, in turn. Clusters are kept together."""
    clusters = clusters_of(pair.texts for pair in pairs)
    hits = right = 0
    for fold in range(FOLDS):
        chosen_on = [p for p, c in zip(pairs, clusters, strict=True) if c % FOLDS != fold]
        point = choose(draw(chosen_on, with_valve=True), target)
        if point is None:
            return None
        for pair, cluster in zip(pairs, clusters, strict=True):
            if cluster % FOLDS == fold and _is_hit(pair, point.similarity):
                hits += 1
                right += pair.right
    return HeldOut(hits, right, wilson(right, hits))


def _is_hit(pair: Measured, similarity: float) -> bool:
    return pair.refused_by is None and pair.similarity >= similarity


@dataclass(frozen=True, slots=True)
class Kind:
    """How pairs of one category fare at a similarity."""

    name: str
    may_share: int
    hits_that_may: int
    must_not: int
    hits_that_must_not: int


def by_kind(pairs: Iterable[Measured], similarity: float) -> list[Kind]:
    """Return how each category fares, the most wrong hits first."""
    counts: dict[str, list[int]] = {}
    for pair in pairs:
        row = counts.setdefault(pair.category, [0, 0, 0, 0])
        hit = _is_hit(pair, similarity)
        row[0 if pair.right else 2] += 1
        row[1 if pair.right else 3] += hit
    kinds = [Kind(name, *row) for name, row in counts.items()]
    return sorted(kinds, key=lambda kind: (-kind.hits_that_must_not, kind.name))


def as_toml(recommendations: Sequence[Recommendation], model_id: str, labels: int) -> str:
    """Return the recommended levels as a part of a settings file."""
    lines = [
        f"# Chosen by stepwell tune from {labels:,} labelled pairs, for the embedder",
        f"# {plain(model_id, _MAX_NAME)}",
    ]
    lines += [f"# {r.level}: {r.short}" for r in recommendations]
    levels = {r.level: r.similarity for r in recommendations}
    return "\n".join(lines) + "\n" + tomli_w.dumps({"semantic": {"levels": levels}})
