"""The valve's data files, read when they are first needed and kept."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files


def lines(name: str) -> Iterator[str]:
    """Yield the lines of the package's file ``data/NAME``, without comments. Reads a file."""
    text = (files("stepwell.semantic.valve") / "data" / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


@cache
def simplified() -> dict[int, str]:
    """Return simplified characters by traditional ones, for `str.translate`."""
    return {ord(pair[0]): pair[1] for line in lines("traditional.txt") for pair in line.split()}
