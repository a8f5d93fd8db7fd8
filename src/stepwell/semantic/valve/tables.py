"""The valve's data files, read when they are first needed and kept."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files


def lines(name: str) -> Iterator[str]:
    """Yield the lines of the package's file ``data/NAME``; ``#`` begins a comment. Reads a file."""
    text = (files("stepwell.semantic.valve") / "data" / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        kept = line.partition("#")[0].strip()
        if kept:
            yield kept


@cache
def simplified() -> dict[int, str]:
    """Return simplified characters by traditional ones, for `str.translate`."""
    return {ord(pair[0]): pair[1] for line in lines("traditional.txt") for pair in line.split()}
