"""What labelled pairs say about levels, as values, JSON and text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from stepwell.core.names import Level
from stepwell.semantic.acceptance.calibration import Compared
from stepwell.study.curve import Curve, CurvePoint, draw
from stepwell.study.labels import Labels, Measured
from stepwell.study.levels import Kind, Recommendation, by_kind, recommend
from stepwell.study.terminal import digits, interval, plain, plot
from stepwell.telemetry.tables import share, table

_PRINTED_POINTS = 12
_NAME = 28


@dataclass(frozen=True, slots=True)
class GroupTuning:
    """The curve of a part of the pairs, and what the levels for all do to it."""

    name: str
    curve: Curve
    at_levels: Mapping[Level, CurvePoint | None]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Everything `stepwell tune` says."""

    model_id: str
    labels: Labels
    curve: Curve
    """As the level ``general`` sees the pairs."""
    without_valve: Curve
    groups: Sequence[GroupTuning]
    recommendations: Sequence[Recommendation]
    kinds: Sequence[Kind]
    """Categories at the recommended ``general`` level."""


def tune(
    labels: Labels,
    model_id: str,
    targets: Mapping[Level, float],
    in_force: Mapping[Level, float],
    compared: Compared | None = None,
) -> Tuning:
    """Return what ``labels`` say.

    Args:
        labels: Measured with the embedder ``model_id``.
        model_id: Its id.
        targets: Least precision of each level, in [0, 1).
        in_force: The similarities of today.
        compared: What the levels ask of the comparison; ``None`` if there is none.
    """
    levels = get_args(Level)
    pairs = {level: [pair.at(level, compared) for pair in labels.pairs] for level in levels}
    recommendations = recommend(pairs, targets, in_force)
    general = next(r.similarity for r in recommendations if r.level == "general")
    return Tuning(
        model_id=model_id,
        labels=labels,
        curve=draw(pairs["general"], with_valve=True),
        without_valve=draw(labels.pairs, with_valve=False),
        groups=_groups(pairs, recommendations),
        recommendations=recommendations,
        kinds=by_kind(pairs["general"], general),
    )


def _groups(
    pairs: Mapping[Level, Sequence[Measured]], recommendations: Sequence[Recommendation]
) -> list[GroupTuning]:
    parts: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs["general"]):
        parts.setdefault(f"language {pair.language}", []).append(place)
        if pair.request_class:
            parts.setdefault(f"class {pair.request_class}", []).append(place)
    groups = []
    for name, places in sorted(parts.items()):
        curves = {
            level: draw([some[place] for place in places], with_valve=True)
            for level, some in pairs.items()
        }
        at_levels = {r.level: point_at(curves[r.level], r.similarity) for r in recommendations}
        groups.append(GroupTuning(name, curves["general"], at_levels))
    return groups


def point_at(curve: Curve, similarity: float) -> CurvePoint | None:
    """Return the first point at or above ``similarity``; ``None`` beyond the last pair."""
    return next((point for point in curve.points if point.similarity >= similarity), None)


def as_json(tuning: Tuning) -> dict[str, Any]:
    """Return everything as an object of JSON."""
    return {
        "model_id": tuning.model_id,
        "pairs": tuning.curve.pairs,
        "may_share": tuning.curve.may_share,
        "clusters": tuning.curve.clusters,
        "left_out": dict(tuning.labels.left_out),
        "levels": {r.level: _recommendation(r) for r in tuning.recommendations},
        "curve": _points(tuning.curve),
        "curve_without_valve": _points(tuning.without_valve),
        "groups": {
            group.name: {
                "pairs": group.curve.pairs,
                "may_share": group.curve.may_share,
                "clusters": group.curve.clusters,
                "at_levels": {
                    level: None if point is None else point.as_json()
                    for level, point in group.at_levels.items()
                },
                "curve": _points(group.curve),
            }
            for group in tuning.groups
        },
        "categories_at_general": [asdict(kind) for kind in tuning.kinds],
    }


def _points(curve: Curve) -> list[dict[str, Any]]:
    return [point.as_json() for point in curve.points]


def _recommendation(recommendation: Recommendation) -> dict[str, Any]:
    held_out = recommendation.held_out
    return {
        "similarity": recommendation.similarity,
        "in_force": recommendation.in_force,
        "shown": recommendation.point is not None,
        "target_precision": recommendation.target,
        "why": recommendation.why,
        "point": None if recommendation.point is None else recommendation.point.as_json(),
        "held_out": None
        if held_out is None
        else {
            "hits": held_out.hits,
            "right": held_out.right,
            "precision_wilson": [held_out.precision.low, held_out.precision.high],
        },
    }


def as_text(tuning: Tuning) -> str:
    """Return everything as text for a terminal, ending in a line feed."""
    blocks = [_head(tuning), _plot(tuning), _curve_table(tuning)]
    if len(tuning.groups) > 1:
        blocks.append(_group_table(tuning))
    if len(tuning.kinds) > 1:
        blocks.append(_kind_table(tuning.kinds))
    blocks.append(_advice(tuning.recommendations))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(tuning: Tuning) -> str:
    curve = tuning.curve
    sizes = f"{curve.pairs:,} labelled pairs in {curve.clusters:,} clusters"
    lines = [
        f"{sizes}; {curve.may_share:,} may share an answer.",
        f"embedder: {plain(tuning.model_id, 100)}",
    ]
    lines += [
        f"left out, {plain(why, 40)}: {count:,}" for why, count in tuning.labels.left_out.items()
    ]
    return "\n".join(lines)


def _plot(tuning: Tuning) -> str:
    if not tuning.curve.points:
        return ""
    drawn = plot(
        {
            ". precision without the valve": [
                (p.similarity, p.measured)
                for p in tuning.without_valve.points
                if p.measured is not None
            ],
            "h hit rate": [
                (p.similarity, p.hit_rate) for p in tuning.curve.points if p.hit_rate is not None
            ],
            "p precision": [
                (p.similarity, p.measured) for p in tuning.curve.points if p.measured is not None
            ],
        }
    )
    return (
        f"{drawn}\n       similarity, as the level general sees the pairs;\n      "
        " p precision, h hit rate, . precision without the valve"
    )


def _curve_table(tuning: Tuning) -> str:
    points = tuning.curve.points
    step = max(1, len(points) // _PRINTED_POINTS)
    rows = [
        ["similarity", "hit rate", "false hits", "precision", "Wilson", "by clusters", "no valve"]
    ]
    for point in points[::step]:
        bare = point_at(tuning.without_valve, point.similarity)
        rows.append(
            [
                f"{point.similarity:.3f}",
                share(point.hit_rate),
                share(point.false_hit_rate),
                share(point.measured),
                interval(point.precision),
                interval(point.precision_by_cluster),
                share(None if bare is None else bare.measured),
            ]
        )
    return table(rows) if points else ""


def _group_table(tuning: Tuning) -> str:
    rows = [["at the recommended levels", "pairs", "level", "hit rate", "false hits", "precision"]]
    for group in tuning.groups:
        for level, point in group.at_levels.items():
            cells = ["-", "-", "-"]
            if point is not None:
                cells = [
                    share(point.hit_rate),
                    share(point.false_hit_rate),
                    interval(point.precision),
                ]
            rows.append([plain(group.name, _NAME), f"{group.curve.pairs:,}", level, *cells])
    return table(rows)


def _kind_table(kinds: Sequence[Kind]) -> str:
    rows = [["category, at general", "may share", "hits", "must not", "wrong hits"]]
    rows += [
        [
            plain(kind.name, _NAME) or "(none)",
            f"{kind.may_share:,}",
            f"{kind.hits_that_may:,}",
            f"{kind.must_not:,}",
            f"{kind.hits_that_must_not:,}",
        ]
        for kind in kinds
    ]
    return table(rows)


def _advice(recommendations: Sequence[Recommendation]) -> str:
    lines = []
    for r in recommendations:
        lines.append(f"{r.level} ({r.target:.1%} right): {digits(r.similarity)}. {r.why}")
        if r.held_out is not None:
            lines.append(
                f"  Chosen on four fifths and counted on the other: {r.held_out.right:,} of"
                f" {r.held_out.hits:,} hits right, {interval(r.held_out.precision)}."
            )
    return "\n".join(lines)
