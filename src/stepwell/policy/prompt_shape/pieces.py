"""A text in pieces: what stays, and between it what changes by itself.

Two texts that differ only in faults have equal `Piece.bare` all along, white space and volatile
pieces left out; where a `Piece.raw` differs nevertheless, `Piece.fault` says why.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.tokens import CountTokens
from stepwell.policy.prompt_shape.volatile import volatile_spans

MAX_PIECE_CHARACTERS = 2_000
MAX_LINE_CHARACTERS = 20_000
"""Of a longer line only this much is searched for what changes by itself."""

_MAX_CACHED_LINES = 50_000
_MAX_CACHED_CHARACTERS = 400
_MAX_CACHED_VALUES = 2_000
_MAX_JSON_VALUES = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a JSON value, or a span that changes by itself."""

    raw: str
    bare: str
    """What is left without faults; empty for what counts for nothing."""
    fault: Cause
    """What to blame where another prompt has other ``raw`` here and the same ``bare``."""
    tokens: float


class PieceCutter:
    """Cuts texts into pieces. Remembers lines, as prompts repeat them. Not thread-safe.

    Cost: 0.1 us a character for lines met before, else up to 2 us.
    """

    def __init__(self, count_tokens: CountTokens) -> None:
        """Remember nothing.

        Args:
            count_tokens: How many tokens a piece is.
        """
        self._count_tokens = count_tokens
        self._lines: dict[str, tuple[Piece, ...]] = {}
        self._values: dict[str, Piece] = {}

    def cut(self, text: str) -> tuple[Piece, ...]:
        """Return the pieces of ``text``; their ``raw``, joined, is ``text``."""
        pieces: list[Piece] = []
        for part, in_order in _parts(text):
            if in_order:
                pieces.append(self.json(part, in_order))
                continue
            for line in part.splitlines(keepends=True):
                pieces += self._line(line)
        return tuple(pieces)

    def json(self, text: str, in_order: str) -> Piece:
        """Return JSON as one piece.

        Args:
            text: As it stands in the prompt.
            in_order: The same with its keys sorted.
        """
        found = self._values.get(text)
        if found is None:
            # JSON has no line ends of its own.
            bare = "".join(piece.bare for piece in self._cut_line(in_order))
            found = Piece(text, bare, Cause.JSON_ORDER, self._count_tokens(text))
            if len(text) <= MAX_LINE_CHARACTERS:
                if len(self._values) >= _MAX_CACHED_VALUES:
                    self._values.clear()
                self._values[text] = found
        return found

    def volatile(self, text: str, cause: Cause) -> Piece:
        """Return a text as a piece that changes by itself."""
        return Piece(text, "", cause, self._count_tokens(text))

    def _line(self, line: str) -> tuple[Piece, ...]:
        found = self._lines.get(line)
        if found is None:
            found = tuple(self._cut_line(line))
            if len(line) <= _MAX_CACHED_CHARACTERS:
                if len(self._lines) >= _MAX_CACHED_LINES:
                    self._lines.clear()
                self._lines[line] = found
        return found

    def _cut_line(self, line: str) -> Iterator[Piece]:
        at = 0
        for span in volatile_spans(line[:MAX_LINE_CHARACTERS]):
            yield from self._cut_plain(line[at : span.start])
            yield self.volatile(line[span.start : span.end], span.cause)
            at = span.end
        yield from self._cut_plain(line[at:])

    def _cut_plain(self, text: str) -> Iterator[Piece]:
        for sentence in _SENTENCE.findall(text):
            bare = " ".join(sentence.split())
            yield Piece(sentence, bare, Cause.WHITESPACE, self._count_tokens(sentence))


_SENTENCE = re.compile(
    rf"[^.!?。！？]{{0,{MAX_PIECE_CHARACTERS}}}[.!?。！？]{{1,{MAX_PIECE_CHARACTERS}}}"
    rf"|[^.!?。！？]{{1,{MAX_PIECE_CHARACTERS}}}"
)
"""Ends are told by marks, not by blanks: so texts with other blanks have the same pieces."""

_JSON_START = re.compile(r"^[ \t]*(?=\{\s*\"|\[\s*[\[{\"])", re.MULTILINE)
_DECODER = json.JSONDecoder()


def as_json(value: object, option: int = 0) -> str:
    """Return ``value`` as JSON; empty if JSON cannot say it, or if it is nested too deep."""
    try:
        return orjson.dumps(value, option=option).decode()
    except orjson.JSONEncodeError:
        return ""


def in_key_order(value: object) -> str:
    """Return ``value`` as JSON with its keys sorted; empty as for `as_json`."""
    return as_json(value, orjson.OPT_SORT_KEYS)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Cut out JSON values that begin a line, each with what it is with its keys sorted.

    Linear in the length of the text: after some beginnings that are no JSON, it gives up.
    """
    begun = at = 0
    for _ in range(_MAX_JSON_VALUES):
        start = _JSON_START.search(text, at)
        if start is None:
            break
        end, in_order = _json_at(text, start.end())
        if in_order:
            if begun < start.end():
                yield text[begun : start.end()], ""
            yield text[start.end() : end], in_order
            begun = end
        at = end
    if begun < len(text):
        yield text[begun:], ""


def _json_at(text: str, start: int) -> tuple[int, str]:
    """Return where a JSON value ends, and what it is; without one, a place behind its start."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return start + 1, ""
    return end, in_key_order(value)
