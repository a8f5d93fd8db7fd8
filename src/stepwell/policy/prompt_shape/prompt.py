"""What a model reads of a request, in the order in which chat templates put it, in pieces."""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from stepwell.core.names import Endpoint
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.documents import stretches
from stepwell.policy.prompt_shape.pieces import Piece, PieceCutter, as_json, in_key_order
from stepwell.policy.prompt_shape.places import SYSTEM_ROLES
from stepwell.policy.prompt_shape.reshaping import tool_name

MAX_PROMPT_CHARACTERS = 8 << 20
"""A prompt is looked at up to here."""


class Part(StrEnum):
    """Whose words they are. The value is its name in reports."""

    TOOLS = "tools"
    SYSTEM = "system prompt"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool results"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class Segment:
    """A tool, a document, or the text between."""

    part: Part
    pieces: tuple[Piece, ...]
    rank: int = 0
    """Place among the tools, or among documents in a row, as they stand in the prompt."""
    disorder: Cause | None = None
    """What it is if another prompt has this one at another rank."""
    name: str = ""
    """Of a tool."""

    @property
    def tokens(self) -> float:
        """How many tokens it is."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def bare(self) -> str:
        """What is left of it without faults."""
        return " ".join(piece.bare for piece in self.pieces if piece.bare)


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that a model reads of one request but the template's own marks."""

    segments: tuple[Segment, ...]
    """As they stand in it."""
    in_order: tuple[Segment, ...]
    """The same with tools sorted by name, and documents in a row by what is in them."""

    @property
    def tokens(self) -> float:
        """How many tokens it is."""
        return sum(segment.tokens for segment in self.segments)


def read_prompt(endpoint: Endpoint, body: Mapping[str, Any], cutter: PieceCutter) -> Prompt:
    """Return what a model reads of a request.

    Tools come first, as OpenAI and most templates have them; then instructions, then the turns.
    Images and other things that are no text count as their type and a checksum. Of any body
    something can be read; nothing raises.
    """
    segments: list[Segment] = []
    room = MAX_PROMPT_CHARACTERS
    for part, text in _texts(endpoint, body):
        if isinstance(text, _Tool):
            segments.append(_tool(text, len(segments), cutter))
        else:
            segments += _segments(part, text[:room], cutter)
            room -= len(text)
        if room <= 0:
            break
    return Prompt(tuple(segments), tuple(_in_order(segments)))


def _in_order(segments: list[Segment]) -> Iterator[Segment]:
    for (_, disorder), run in groupby(segments, lambda segment: (segment.part, segment.disorder)):
        if disorder is None:
            yield from run
        else:
            yield from sorted(run, key=lambda segment: (segment.name, segment.bare))


@dataclass(frozen=True, slots=True)
class _Tool:
    value: object


def _texts(endpoint: Endpoint, body: Mapping[str, Any]) -> Iterator[tuple[Part, str | _Tool]]:
    if endpoint is Endpoint.COMPLETIONS:
        yield Part.PROMPT, _plain(body.get("prompt"))
        return
    tools = body.get("tools") or body.get("functions")
    for tool in tools if isinstance(tools, list) else ():
        yield Part.TOOLS, _Tool(tool)
    if endpoint is Endpoint.RESPONSES and isinstance(body.get("instructions"), str):
        yield Part.SYSTEM, body["instructions"]
    turns = body.get("messages" if endpoint is Endpoint.CHAT else "input")
    if isinstance(turns, str):
        yield Part.USER, turns
    for turn in turns if isinstance(turns, list) else ():
        yield from _turn(turn)


_PARTS = {
    **dict.fromkeys(SYSTEM_ROLES, Part.SYSTEM),
    "user": Part.USER,
    "assistant": Part.ASSISTANT,
    "tool": Part.TOOL,
    "function": Part.TOOL,
}


def _turn(turn: object) -> Iterator[tuple[Part, str]]:
    if not isinstance(turn, dict):
        yield Part.USER, _plain(turn)
        return
    role = turn.get("role")
    part = _PARTS.get(role, Part.TOOL) if isinstance(role, str) else Part.TOOL
    content = turn.get("content")
    for member in content if isinstance(content, list) else (content,):
        if member is not None:
            yield part, _plain(member)
    # Calls, and the items of a response that have no content.
    for name in ("tool_calls", "function_call", "name", "arguments", "output"):
        if turn.get(name):
            yield part, _plain(turn[name])


def _plain(value: object) -> str:
    """Return a text as it is, and of everything else something that is the same for the same."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    written = as_json(value)
    if isinstance(value, dict) and isinstance(kind := value.get("type"), str):
        # An image would count for as many tokens as its base64 has.
        return f"[{kind} {zlib.crc32(written.encode()):08x}]"
    return written


def _tool(tool: _Tool, rank: int, cutter: PieceCutter) -> Segment:
    name, in_order = tool_name(tool.value), in_key_order(tool.value)
    pieces = (cutter.json(as_json(tool.value), in_order),)
    return Segment(Part.TOOLS, pieces, rank, Cause.TOOL_ORDER, name)


def _segments(part: Part, text: str, cutter: PieceCutter) -> Iterator[Segment]:
    rank = 0
    for stretch in stretches(text) if part is not Part.ASSISTANT else ():
        rank = rank + 1 if stretch.label else 0
        label = (cutter.volatile(stretch.label, Cause.DOCUMENT_ORDER),) if stretch.label else ()
        disorder = Cause.DOCUMENT_ORDER if stretch.label else None
        yield Segment(part, (*label, *cutter.cut(stretch.text)), rank, disorder)
    if part is Part.ASSISTANT:
        yield Segment(part, tuple(_answer(text, cutter)))


_THOUGHTS = re.compile(r"<think(?:ing)?>|</think(?:ing)?>\s*")


def _answer(text: str, cutter: PieceCutter) -> Iterator[Piece]:
    """Cut an answer, its thoughts apart: some turns have them in their history, others do not."""
    at = 0
    while opening := _THOUGHTS.search(text, at):
        closing = _THOUGHTS.search(text, opening.end())
        end = closing.end() if closing else len(text)
        yield from cutter.cut(text[at : opening.start()])
        yield cutter.volatile(text[opening.start() : end], Cause.THINKING)
        at = end
    yield from cutter.cut(text[at:])
