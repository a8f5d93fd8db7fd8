"""How often an answer to other words is right, as far as those that were judged can tell."""

from collections import Counter
from dataclasses import dataclass

from stepwell.policy.intervals import wilson
from stepwell.telemetry.catalogue import JUDGED, NOT_JUDGED, PRECISION, WITHHELD
from stepwell.telemetry.series import Series, Values

_SHADOW = "shadow"

_AT_RANDOM = frozenset({"sample", _SHADOW})
"""What people judge is no random sample: they speak of what is wrong."""


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """What is known of one class's answers to other words, by one way of judging them."""

    request_class: str
    by: str
    """``person``, ``sample`` or ``shadow``."""
    withheld: int | None
    """Matches that were not served, in shadow mode; ``None`` for the other ways."""
    right: int
    wrong: int
    not_judged: int
    """Were to be judged and were not; they count neither way."""
    precision: float | None
    """Share of the right among right and wrong; ``None`` before the first, and for people."""
    lower: float | None
    """Where its 95 % interval (Wilson) begins."""
    upper: float | None
    """Where it ends."""


def judged_lines(counters: Values) -> tuple[JudgedLine, ...]:
    """Return a line for each class and way of judging that ``counters`` tell something about."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for series, value in counters.items():
        match series.name:
            case JUDGED.name:
                by, what = series.label("by"), series.label("verdict")
            case NOT_JUDGED.name:
                by, what = series.label("by"), "not judged"
            case WITHHELD.name:
                by, what = _SHADOW, "withheld"
            case _:
                continue
        counts.setdefault((series.label("class"), by), Counter())[what] += int(value)
    return tuple(
        _line(*place, counts[place]) for place in sorted(counts) if any(counts[place].values())
    )


def live_precision(counters: Values) -> dict[Series, float]:
    """Return the gauges of `PRECISION` that follow from ``counters``.

    An estimate and the two ends of its 95 % interval for each class and reason of judging; nothing
    where nothing was judged.
    """
    gauges: dict[Series, float] = {}
    for line in judged_lines(counters):
        bounds = {"lower": line.lower, "estimate": line.precision, "upper": line.upper}
        for bound, value in bounds.items():
            if value is not None:
                labels = zip(PRECISION.labels, (line.request_class, line.by, bound), strict=True)
                gauges[Series(PRECISION.name, tuple(labels))] = value
    return gauges


def _line(request_class: str, by: str, counts: Counter[str]) -> JudgedLine:
    right, wrong = counts["right"], counts["wrong"]
    is_known = by in _AT_RANDOM and right + wrong > 0
    interval = wilson(right, right + wrong)
    return JudgedLine(
        request_class=request_class,
        by=by,
        withheld=counts["withheld"] if by == _SHADOW else None,
        right=right,
        wrong=wrong,
        not_judged=counts["not judged"],
        precision=right / (right + wrong) if is_known else None,
        lower=interval.low if is_known else None,
        upper=interval.high if is_known else None,
    )
