"""Where texts stand in a request's body, and how one is replaced without changing the body.

Bodies may have any shape; what is not understood is no place.
"""

from collections.abc import Iterator
from typing import Any

from stepwell.core.names import Endpoint

Path = tuple[str | int, ...]
"""Members from the body down to a value."""

SYSTEM_ROLES = ("system", "developer")
"""Not a set: a stranger's role may be anything, and not all of that can be looked up in one."""

_TURNS = {Endpoint.CHAT: "messages", Endpoint.RESPONSES: "input"}


def head_texts_at(endpoint: Endpoint, body: dict[str, Any]) -> list[Path]:
    """Return where the texts of the system prompt stand: those before anybody has spoken."""
    field = _TURNS.get(endpoint, "")
    turns = body.get(field)
    found: list[Path] = []
    if endpoint is Endpoint.RESPONSES and isinstance(body.get("instructions"), str):
        found.append(("instructions",))
    for number, turn in enumerate(turns if isinstance(turns, list) else ()):
        if not isinstance(turn, dict) or turn.get("role") not in SYSTEM_ROLES:
            break
        found += _texts_at((field, number, "content"), turn.get("content"))
    return found


def _texts_at(path: Path, content: object) -> Iterator[Path]:
    if isinstance(content, str):
        yield path
    elif isinstance(content, list):
        for number, part in enumerate(content):
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield (*path, number, "text")


def last_user_content_at(endpoint: Endpoint, body: dict[str, Any]) -> Path | None:
    """Return where the content of the last user message stands: a text, or a list of parts."""
    field = _TURNS.get(endpoint, "")
    turns = body.get(field)
    if isinstance(turns, str):
        return (field,)
    for number, turn in reversed(list(enumerate(turns if isinstance(turns, list) else ()))):
        if isinstance(turn, dict) and turn.get("role") == "user":
            has_content = isinstance(turn.get("content"), str | list)
            return (field, number, "content") if has_content else None
    return None


def at(body: dict[str, Any], path: Path) -> Any:  # noqa: ANN401  (any JSON value)
    """Return what stands at ``path``."""
    value: Any = body
    for step in path:
        value = value[step]
    return value


def replaced(body: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    """Return a copy of ``body`` with ``value`` at ``path``; shares what is not on the way there."""
    copy: dict[str, Any] = _replaced(body, path, value)
    return copy


def _replaced(parent: Any, path: Path, value: object) -> Any:  # noqa: ANN401  (any JSON value)
    if not path:
        return value
    step, *rest = path
    copy = parent.copy()
    copy[step] = _replaced(parent[step], tuple(rest), value)
    return copy
