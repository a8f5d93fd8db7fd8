"""Takes the words out of a request that others may put otherwise. Pure.

These are the text of the user's last turn, and only where it is the last turn of all: what an
assistant or a tool said after it answers these very words. Everything else stays: system prompt,
earlier turns, tools, images. A request in which the words cannot be told for sure has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.core.names import Endpoint

_TEXT_PARTS = ("text", "input_text")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A request, taken apart."""

    text: str
    rest: Mapping[str, Any]
    """The body without ``text`` and ``temperature``. In the text's place stands what no request
    can hold."""
    temperature: float | None


def take_phrase(endpoint: Endpoint, body: Mapping[str, Any]) -> Phrase | None:
    """Return ``body`` taken apart, or ``None`` if no words of it may be put otherwise.

    A raw prompt of ``completions`` has none: it is continued from its last character on. Never
    raises, whatever the shape of ``body``, which is not changed.
    """
    temperature = body.get("temperature")
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | None):
        return None
    field = "input" if endpoint is Endpoint.RESPONSES else "messages"
    turns = body.get(field)
    if endpoint is Endpoint.RESPONSES and isinstance(turns, str):
        taken: _Taken | None = (turns, _PLACE)
    else:
        taken = _from_turns(turns)
    if taken is None or endpoint is Endpoint.COMPLETIONS:
        return None
    text, without = taken
    rest: dict[str, Any] = {**body, field: without}
    rest.pop("temperature", None)
    return Phrase(text, rest, None if temperature is None else float(temperature))


_Taken = tuple[str, object]
"""A text, and what it was taken from without it."""

_PLACE: Mapping[str, str] = {}
"""Where a text was: an object, which is no text and no list of parts."""


def _from_turns(turns: object) -> _Taken | None:
    if not isinstance(turns, list) or not turns:
        return None
    last = turns[-1]
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    taken = _from_content(last.get("content"))
    if taken is None:
        return None
    text, content = taken
    return text, [*turns[:-1], {**last, "content": content}]


def _from_content(content: object) -> _Taken | None:
    """Return the one text of a turn, and the turn's content without it.

    Where several texts stand in one turn, nobody can say which of them is the question.
    """
    if isinstance(content, str):
        return content, _PLACE
    if not isinstance(content, list):
        return None
    places = [place for place, part in enumerate(content) if _is_text(part)]
    if len(places) != 1 or any(_holds_place(part) for part in content):
        return None
    place = places[0]
    part = content[place]
    return part["text"], [*content[:place], {**part, "text": _PLACE}, *content[place + 1 :]]


def _holds_place(part: object) -> bool:
    """Return whether a text is missing already: two such requests could be confused."""
    return isinstance(part, dict) and part.get("text") == _PLACE


def _is_text(part: object) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") in _TEXT_PARTS
        and isinstance(part.get("text"), str)
    )
