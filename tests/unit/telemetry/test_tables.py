"""Tables line up on a terminal."""

import pytest

from stepwell.telemetry.tables import share, table


def test_columns_line_up() -> None:
    """Names to the left, numbers to the right, no blanks at the end; Chinese takes two cells."""
    rows = [["class", "hits", "time"], ["常见问题", "7", "1.5 s"], ["code", "1,024", ""]]
    assert table(rows).splitlines() == [
        "class      hits   time",
        "常见问题      7  1.5 s",
        "code      1,024",
    ]


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.0, "0.0%"), (0.1234, "12.3%"), (1.0, "100.0%"), (None, "-")]
)
def test_a_share_is_in_percent(ratio: float | None, expected: str) -> None:
    """Where there is nothing to take a share of, there is none."""
    assert share(ratio) == expected
