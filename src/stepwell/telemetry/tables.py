"""Tables and shares for terminals."""

import unicodedata
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, the others to the right."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first + " " * (widths[0] - _cells(first))]
        cells += [
            " " * (width - _cells(cell)) + cell
            for cell, width in zip(others, widths[1:], strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def share(ratio: float | None) -> str:
    """Return a share in percent."""
    return "-" if ratio is None else f"{ratio:.1%}"


def _cells(text: str) -> int:
    """Return the terminal cells of ``text``: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
