"""Rewrites of a request that let its prompt begin like the ones before. Pure.

Each is safe in the same sense: applying it twice is applying it once; code, user's words, answers
and tool results stay as they are, byte for byte; nothing the model was told is lost; and what it
does not understand it leaves alone. But the model reads another prompt: so each must be asked for.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stepwell.core.names import Endpoint
from stepwell.keys.text import prose_and_code
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.movable import Movable, movable_in, without
from stepwell.policy.prompt_shape.pieces import as_json
from stepwell.policy.prompt_shape.places import at, head_texts_at, last_user_content_at, replaced

SHAPE_VERSION = 2
"""Of all rewrites together. Part of what an answer depends on: raise it when one changes."""


MAX_HEAD_CHARACTERS = 1_000_000
"""A longer system prompt keeps its words: reading it would hold up everybody else's requests."""

MAX_HEAD_TEXTS = 1_000
"""One in more parts does, too."""

_MAX_PASSES = 8
"""Over a text. What is moved may uncover what can be moved as well, in texts made for that."""


class Rewrite(StrEnum):
    """A rewrite, as it is named in the settings."""

    TIMESTAMPS = "timestamps"
    """Lines of the system prompt that say the time move to the end of the last user message."""
    IDS = "ids"
    """The same for session, request and trace ids."""
    COUNTERS = "counters"
    """The same for counters, and for tokens or credits used or left."""
    TOOLS = "tools"
    """Tools are sorted by name."""
    JSON = "json"
    """Keys in the definitions of tools are sorted. With strict tools a model writes arguments in
    the order of the schema."""
    WHITESPACE = "whitespace"
    """In the system prompt's prose: no blanks at line ends, LF line ends, one empty line at most,
    none at either end."""


_MOVES: Mapping[Rewrite, frozenset[Cause]] = {
    Rewrite.TIMESTAMPS: frozenset({Cause.TIMESTAMP}),
    Rewrite.IDS: frozenset({Cause.ID}),
    Rewrite.COUNTERS: frozenset({Cause.COUNTER, Cause.USAGE}),
}


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A request after its rewrites."""

    body: dict[str, Any]
    """The very same object if nothing was to be done; else shares what did not change."""
    what: tuple[str, ...]
    """What was done, for the trail; empty: nothing."""


def shape_identity(rules: Collection[Rewrite]) -> str:
    """Return what the rewrites in force add to the identity of a model server's answers.

    The cache key is made from the caller's request, as it is without rewrites; this goes in beside
    it, so that turning a rewrite on, or a new version of one, never serves answers of before.
    Empty without rewrites.
    """
    return f"shape {SHAPE_VERSION} {' '.join(sorted(rules))}" if rules else ""


def reshape(endpoint: Endpoint, body: dict[str, Any], rules: Collection[Rewrite]) -> Reshaped:
    """Return the request with ``rules`` applied.

    Args:
        endpoint: The operation. A raw prompt (completions) is never changed.
        body: The parsed request; not changed. Fields keep their order.
        rules: The rewrites asked for.

    Cost: some 0.05 us per character of the system prompt, 0.2 us in lines that have a digit; of a
    prompt made to be slow, eight times 1 us. Beyond `MAX_HEAD_CHARACTERS` or `MAX_HEAD_TEXTS` only
    tools change.
    """
    if endpoint is Endpoint.COMPLETIONS or not rules:
        return Reshaped(body, ())
    what: list[str] = []
    after = _with_tools(body, rules, what)
    after = _with_words(endpoint, after, rules, what)
    return Reshaped(after, tuple(what))


def _with_tools(
    body: dict[str, Any], rules: Collection[Rewrite], what: list[str]
) -> dict[str, Any]:
    for field in ("tools", "functions"):
        tools = body.get(field)
        if not (isinstance(tools, list) and as_json(tools)):
            continue  # What cannot be sent, or is nested too deep, is not ours to mend.
        if Rewrite.JSON in rules:
            tools = _changed(tools, [_sorted_keys(tool) for tool in tools], "keys sorted", what)
        if Rewrite.TOOLS in rules:
            tools = _changed(tools, sorted(tools, key=tool_name), "sorted by name", what)
        if tools is not body[field]:
            body = {**body, field: tools}
    return body


def _changed(old: list[Any], new: list[Any], how: str, what: list[str]) -> list[Any]:
    """Return ``new`` if it is written otherwise than ``old``, which then goes on the record."""
    if as_json(new) == as_json(old):
        return old
    what.append(f"tools: {how}")
    return new


def tool_name(tool: object) -> str:
    """Return a tool's name; of one without, its type; empty where there is neither."""
    if not isinstance(tool, dict):
        return ""
    inner = tool.get("function")
    names = (inner.get("name") if isinstance(inner, dict) else None, tool.get("name"))
    return next((name for name in (*names, tool.get("type")) if isinstance(name, str)), "")


def _sorted_keys(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    match value:
        case dict():
            return {name: _sorted_keys(value[name]) for name in sorted(value)}
        case list():
            return [_sorted_keys(member) for member in value]
        case _:
            return value


def _with_words(
    endpoint: Endpoint, body: dict[str, Any], rules: Collection[Rewrite], what: list[str]
) -> dict[str, Any]:
    causes = frozenset(cause for rule in rules for cause in _MOVES.get(rule, ()))
    to = last_user_content_at(endpoint, body)
    tidy, moved, after = Rewrite.WHITESPACE in rules, list[Movable](), body
    paths = head_texts_at(endpoint, body)
    characters = sum(len(at(body, path)) for path in paths)
    if len(paths) > MAX_HEAD_TEXTS or characters > MAX_HEAD_CHARACTERS:
        return body
    for path in paths:
        text = at(body, path)
        # Without a place to move to, nothing moves.
        new = _settled(text, causes if to else frozenset(), tidy=tidy)
        if new.text != text:
            after = replaced(after, path, new.text)
            moved += new.moved
    if after is body:
        return body
    if to and moved:
        after = replaced(after, to, _with_note(at(after, to), endpoint, moved))
        kinds = Counter(place.cause for place in moved)
        said = ", ".join(f"{number} {cause}" for cause, number in kinds.items())
        what.append(f"moved behind the user's words: {said}")
    elif tidy:
        what.append("system prompt: white space made even")
    return after


@dataclass(frozen=True, slots=True)
class _Settled:
    """A text of the system prompt to which no rewrite applies any more."""

    text: str
    moved: list[Movable]


def _settled(text: str, causes: frozenset[Cause], *, tidy: bool) -> _Settled:
    """Apply rewrites to a text until nothing changes any more; as it was, if that takes long."""
    after, moved = text, list[Movable]()
    for _ in range(_MAX_PASSES):
        before = after
        after = _tidied(before) if tidy else before
        places = movable_in(after, causes) if causes else []
        after, gone = _without_all(after, places)
        moved += gone
        if after == before:
            return _Settled(text=after, moved=moved)
    return _Settled(text=text, moved=[])


def _without_all(text: str, places: list[Movable]) -> tuple[str, list[Movable]]:
    """Return ``text`` without sentences, and those that are gone, from left to right."""
    gone: list[Movable] = []
    # From the right: what stands before a sentence keeps its place.
    for place in reversed(places):
        rest = without(text, place)
        # A prompt that says nothing else stays: without one, templates put in their own.
        if rest.strip():
            gone.insert(0, place)
            text = rest
    return text, gone


_EMPTY_LINES = re.compile(r"\n{3,}")


def _tidied(text: str) -> str:
    pieces = [
        (_tidied_prose(piece) if is_prose else piece, is_prose)
        for piece, is_prose in prose_and_code(text)
    ]
    if pieces and pieces[0][1]:
        # The first line's indentation stays: it may be code's.
        pieces[0] = (pieces[0][0].lstrip("\n"), True)
    if pieces and pieces[-1][1]:
        pieces[-1] = (pieces[-1][0].rstrip(), True)
    return "".join(piece for piece, _ in pieces)


def _tidied_prose(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The last line may go on with code.
    *lines, last = text.split("\n")
    return _EMPTY_LINES.sub("\n\n", "\n".join([*(line.rstrip(" \t") for line in lines), last]))


def _with_note(content: Any, endpoint: Endpoint, moved: list[Movable]) -> Any:  # noqa: ANN401
    """Return a user message's content with what was moved behind it."""
    said = ". ".join(place.said.rstrip(".。") for place in moved)
    note = f"[From the system prompt: {said}.]"
    if isinstance(content, str):
        return f"{content}\n\n{note}"
    kind = "input_text" if endpoint is Endpoint.RESPONSES else "text"
    return [*content, {"type": kind, "text": note}]
