"""Plots, intervals and strangers' texts for terminals."""

from collections.abc import Mapping, Sequence

from stepwell.policy.intervals import Interval

Line = Sequence[tuple[float, float]]
"""Points from left to right, each ``(x, y)`` with y from 0 to 1."""

_WIDTH = 64
_HEIGHT = 11


def plot(lines: Mapping[str, Line]) -> str:
    """Return lines drawn with characters; each is drawn with the first of its name.

    Where lines cross, the later one is seen.
    """
    everywhere = [x for line in lines.values() for x, _ in line]
    if not everywhere:
        return ""
    left, right = min(everywhere), max(everywhere)
    span = (right - left) or 1.0
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for name, line in lines.items():
        for column in range(_WIDTH):
            x = left + span * column / (_WIDTH - 1)
            y = _at(line, x)
            if y is not None:
                grid[_HEIGHT - 1 - round(y * (_HEIGHT - 1))][column] = name[0]
    rows = [
        f"{1 - row / (_HEIGHT - 1):>5.0%} |{''.join(cells).rstrip()}"
        for row, cells in enumerate(grid)
    ]
    rows.append("      +" + "-" * _WIDTH)
    ends = f"{left:.2f}"
    rows.append("       " + ends + f"{right:.2f}".rjust(_WIDTH - len(ends)))
    return "\n".join(rows)


def _at(line: Line, x: float) -> float | None:
    """Return what a line is at ``x``: a step, as nothing changes between two points."""
    found = None
    for place, value in line:
        if place > x:
            break
        found = value
    return found


def interval(found: Interval) -> str:
    """Return an interval of a share in percent."""
    return f"{100 * found.low:.1f}-{100 * found.high:.1f} %"


def digits(similarity: float) -> str:
    """Return a level's similarity as it is set: three digits, more only where it has more."""
    short = f"{similarity:.3f}"
    return short if float(short) == similarity else f"{similarity}"


def visible(text: str) -> str:
    """Return a text with the lines it has, safe to print: other control characters are escaped."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def plain(text: str, at_most: int) -> str:
    """Return a stranger's text on one line, safe to print: no control characters, not too long."""
    shown = "".join(c if c.isprintable() else " " for c in text[: 4 * at_most])
    shown = " ".join(shown.split())
    return shown if len(shown) <= at_most else shown[: at_most - 1] + "…"
