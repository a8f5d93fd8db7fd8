"""Names a request gives us: its class, tags, sources and sub-namespace.

Each may be said in several places. ``said`` holds what was, as pairs of the place (a header or a
field, for error messages) and the text.
"""

import math
import re
from collections.abc import Iterator
from typing import get_args

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError
from stepwell.core.names import Level

MAX_NAMES = 16
"""Bound on the tags, and on the sources, of one request."""
MAX_NAME_CHARACTERS = 128
MAX_VALUE_CHARACTERS = 256
CONTROL_CHARACTER = r"[\x00-\x1f\x7f-\x9f]"
"""Regular expression for what no name and no value may hold."""

Said = list[tuple[str, str]]

_has_control_character = re.compile(CONTROL_CHARACTER).search
_BLANKS = " \t"


def read_class(said: Said) -> str | None:
    """Return the name of the request class; refuse two that differ."""
    name = None
    for place, text in said:
        other = read_name(place, text.strip(_BLANKS))
        if name not in {None, other}:
            raise bad_control(place, f"must not differ from {said[0][0]}")
        name = other
    return name


def read_tags(said: Said) -> tuple[str, ...]:
    """Return the tags of comma-separated lists, each once, in order."""
    tags: dict[str, None] = {}
    for place, element in _elements(said):
        tags[read_name(place, element)] = None
        _check_number(place, tags)
    return tuple(tags)


def read_sources(said: Said) -> tuple[SourceValue, ...]:
    """Return the sources of comma-separated ``name=value`` lists; refuse two values for one."""
    sources: dict[str, str] = {}
    for place, element in _elements(said):
        name, _, value = element.partition("=")
        name = read_name(place, name.rstrip(_BLANKS))
        value = _checked(place, value.lstrip(_BLANKS), MAX_VALUE_CHARACTERS)
        if sources.setdefault(name, value) != value:
            raise bad_control(place, f"must not give {name[:40]!r} two values")
        _check_number(place, sources)
    return tuple(SourceValue(name, value) for name, value in sources.items())


def read_level(said: Said) -> Level | None:
    """Return the strictest level that is named."""
    levels = get_args(Level)
    found = []
    for place, text in said:
        if text.strip(_BLANKS) not in levels:
            raise bad_control(place, f"must be one of {', '.join(levels)}")
        found.append(levels.index(text.strip(_BLANKS)))
    return levels[min(found)] if found else None


def read_similarity(said: Said) -> float:
    """Return the highest similarity that is named; 0 if none is."""
    highest = 0.0
    for place, text in said:
        try:
            similarity = float(text)
        except ValueError:
            similarity = math.nan
        if not 0.0 <= similarity <= 1.0:
            raise bad_control(place, "must be a cosine similarity from 0 to 1 (not a distance)")
        highest = max(highest, similarity)
    return highest


def read_name(place: str, name: str) -> str:
    """Return ``name`` if it may be one."""
    return _checked(place, name, MAX_NAME_CHARACTERS)


def bad_control(place: str, complaint: str) -> RequestError:
    """Return the error for something said to us that cannot be read."""
    return RequestError(f"'{place}' {complaint}.", code="invalid_control", param=place)


def _elements(said: Said) -> Iterator[tuple[str, str]]:
    for place, text in said:
        for element in text.split(","):
            if stripped := element.strip(_BLANKS):
                yield place, stripped


def _checked(place: str, text: str, max_characters: int) -> str:
    if not text or len(text) > max_characters or _has_control_character(text):
        allowed = f"1 to {max_characters} characters, no control characters"
        raise bad_control(place, f"has a part that is not as it must be ({allowed})")
    return text


def _check_number(place: str, names: dict[str, None] | dict[str, str]) -> None:
    if len(names) > MAX_NAMES:
        raise bad_control(place, f"must not bring the number of names over {MAX_NAMES}")
