"""The ``Cache-Control`` field of a request (RFC 9111, 5.2.1), as names and values."""

import re
from collections.abc import Iterator

_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_ESCAPED = re.compile(r"\\(.)")

_MAX_DELTA_SECONDS = 2**31
"""What a number of seconds that is too large counts as (RFC 9111, 1.2.2)."""


def read_directives(field: str) -> Iterator[tuple[str, str | None]]:
    """Yield the directives of a ``Cache-Control`` field: name in lower case, value if given.

    Values may be tokens or quoted strings, which may hold commas (RFC 9111, 5.2).
    """
    for element in _ELEMENT.findall(field):
        name, equals, value = element.partition("=")
        yield name.strip().lower(), _unquoted(value.strip()) if equals else None


def delta_seconds(value: str | None) -> int | None:
    """Return a number of seconds, or ``None`` if ``value`` is not one (RFC 9111, 1.2.2)."""
    if not value or not (value.isascii() and value.isdecimal()):
        return None
    digits = value.lstrip("0") or "0"
    if len(digits) > len(str(_MAX_DELTA_SECONDS)):
        return _MAX_DELTA_SECONDS
    return min(int(digits), _MAX_DELTA_SECONDS)


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return _ESCAPED.sub(r"\1", value[1:-1])
    return value
