"""The words of a request that say what kind it is: the system's and the user's last ones.

Bodies come from strangers and may have any shape: what is not understood counts as no text, and
nothing here raises. Only the start of long texts and only some of many messages are looked at,
so the cost has a bound that no request can move.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from stepwell.core.names import Endpoint

Body = Mapping[str, Any]
"""A request's JSON body, parsed."""

MAX_CHARACTERS = 4_096
"""A text is looked at up to here."""

MAX_MESSAGES = 64
"""System messages are looked for in this many first messages, the user's in the last."""

_MAX_PARTS = 64
_USER = frozenset({"user"})
_SYSTEM = frozenset({"system", "developer"})
_SPEAKERS = _USER | _SYSTEM | {"assistant"}


def last_user_text(endpoint: Endpoint, body: Body, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the start of the user's last words, or of a prompt; empty if there is no text.

    The texts of one message are joined by line ends. Of a list of prompts, the first counts.
    Costs under a microsecond for a plain chat request.
    """
    if endpoint is Endpoint.COMPLETIONS:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and prompt:
            prompt = prompt[0]
        return prompt[:max_characters] if isinstance(prompt, str) else ""
    turns = _turns(endpoint, body)
    if isinstance(turns, str):
        return turns[:max_characters]
    for turn in islice(reversed(turns), MAX_MESSAGES):
        if _role(turn) in _USER:
            return _join(_texts(turn.get("content")), max_characters)
    return ""


def system_text(endpoint: Endpoint, body: Body, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the start of what the operator of the application says to the model.

    That is: ``instructions`` of a response, then all system and developer messages, joined by
    line ends.
    """
    if endpoint is Endpoint.COMPLETIONS:
        return ""
    return _join(_system_texts(endpoint, body), max_characters)


def has_more_than_text(endpoint: Endpoint, body: Body) -> bool:
    """Return whether the answer depends on more than words: tools, images, audio, files."""
    if body.get("tools") or body.get("functions"):
        return True
    if endpoint is Endpoint.COMPLETIONS:
        return False
    turns = _turns(endpoint, body)
    if isinstance(turns, str):
        return False
    return any(_is_more_than_text(turn) for turn in islice(reversed(turns), MAX_MESSAGES))


def _turns(endpoint: Endpoint, body: Body) -> Sequence[Any] | str:
    turns = body.get("messages" if endpoint is Endpoint.CHAT else "input")
    return turns if isinstance(turns, list | str) else ()


def _role(turn: object) -> object:
    role = turn.get("role") if isinstance(turn, dict) else None
    return role if isinstance(role, str) else None


def _system_texts(endpoint: Endpoint, body: Body) -> Iterator[str]:
    instructions = body.get("instructions")
    if endpoint is Endpoint.RESPONSES and isinstance(instructions, str):
        yield instructions
    turns = _turns(endpoint, body)
    if isinstance(turns, str):
        return
    for turn in islice(turns, MAX_MESSAGES):
        if _role(turn) in _SYSTEM:
            yield from _texts(turn.get("content"))


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in islice(content, _MAX_PARTS):
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                yield text


def _join(texts: Iterable[str], max_characters: int) -> str:
    joined = ""
    for text in texts:
        joined += ("\n" if joined else "") + text[: max_characters + 1]
        if len(joined) >= max_characters:
            break
    return joined[:max_characters]


def _is_more_than_text(turn: object) -> bool:
    if not isinstance(turn, dict):
        return True
    # A turn without a role is a tool call, its output, a reference: an item of a response.
    if _role(turn) not in _SPEAKERS:
        return True
    content = turn.get("content")
    if isinstance(content, str):
        return bool(turn.get("tool_calls"))
    return not isinstance(content, list) or any(
        not (isinstance(part, dict) and isinstance(part.get("text"), str))
        for part in islice(content, _MAX_PARTS)
    )
