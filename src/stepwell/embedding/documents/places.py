"""Places where a text may be cut, and how good each is.

English and Chinese sentences, paragraphs, lists, Markdown's headings and fences. Longer sentences
have places between words too, and what has no words has some anywhere: no piece is longer than
`LONGEST_PIECE_BYTES`, whatever the text is.
"""

import re
from collections.abc import Iterator
from enum import Enum, IntEnum, auto
from typing import NamedTuple
from zlib import crc32

LONGEST_PIECE_BYTES = 1_000
"""A sentence or a line of code beyond it has places inside, too."""

_LONGEST_WORD = 200
"""Characters. A longer run without blanks is cut wherever `_CONTEXT` characters say so, so that
an insertion does not move all places behind it; and at least this often."""
_CONTEXT = 8
_ONE_IN = 64

# An ordinary full stop ends a sentence unless a small letter follows, as in "e.g. this". No
# quantifier gives back what it took: a megabyte of full stops costs one pass as well.
_SENTENCE = re.compile(
    r"""(?<![.!?])[.!?]++["')\]”’]*+\s++(?![a-z])|[。！？…]++["”’」』）】》]*+\s*+"""
)
_WORD = re.compile(r"[^\s，、；：]*+(?:[，、；：]{1,50}+\s{0,50}+|\s{1,100}+|\Z)")
_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_ITEM = re.compile(r"[ \t]*+(?:[-*+•]|\d{1,3}[.)])[ \t]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Level(IntEnum):
    """How well a text is parted somewhere; higher is better."""

    ANYWHERE = 0
    WORD = 1
    LINE = 2
    """Of code."""
    SENTENCE = 3
    """Also between the items of a list."""
    PARAGRAPH = 4
    HEADING = 5
    """Before it; there is no place right behind it."""


class Place(NamedTuple):
    """A place between two pieces of a text."""

    end: int
    """Characters before it."""
    level: Level
    digest: int
    """Of the piece before it, blanks around it left out: decides between places as good."""
    size_bytes: int
    """Of that piece, in UTF-8."""


def places(text: str) -> Iterator[Place]:
    """Yield all places of ``text`` in order; the last is its end. Costs one pass over it."""
    start = 0
    for end, level in _outer(text):
        place = _place(text, start, end, level)
        if place.size_bytes > LONGEST_PIECE_BYTES:
            yield from _inner(text, start, end, level)
        else:
            yield place
        start = end


def _place(text: str, start: int, end: int, level: Level) -> Place:
    piece = text[start:end].encode("utf-8", "surrogatepass")
    return Place(end, level, crc32(piece.strip()), len(piece))


def _outer(text: str) -> Iterator[tuple[int, Level]]:
    """Yield the ends of sentences, paragraphs, items and lines of code, and how good they are."""
    reader = _Reader()
    block = 0
    for line in _LINE.finditer(text):
        was_code = reader.in_code
        level = reader.read(line[0])
        if level is not None and line.start() > block:
            if not was_code:
                yield from _sentences(text, block, line.start())
            yield line.start(), level
            block = line.start()
    if not reader.in_code:
        yield from _sentences(text, block, len(text))
    if text:
        yield len(text), Level.HEADING


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, Level]]:
    for found in _SENTENCE.finditer(text, start, end):
        if found.end() < end:
            yield found.end(), Level.SENTENCE


class _After(Enum):
    """What came before a line, blank lines left out."""

    TEXT = auto()
    HEADING = auto()
    FENCE = auto()
    CODE = auto()


class _Reader:
    """Reads lines; knows how well the text is parted before each."""

    def __init__(self) -> None:
        self._fence = ""
        self._after = _After.TEXT
        self._blank = False

    @property
    def in_code(self) -> bool:
        """Whether what was read last is in a fence, the fence included."""
        return self._after in {_After.FENCE, _After.CODE}

    def read(self, line: str) -> Level | None:
        """Return how good the place before ``line`` is; ``None``: it is none."""
        if self._fence:
            return self._code(line)
        if not line.strip():
            self._blank = True
            return None
        fence = _FENCE.match(line)
        level = self._text(line, opens=fence is not None)
        self._blank = False
        if fence is not None:
            self._fence, self._after = fence[1], _After.FENCE
        return level

    def _code(self, line: str) -> Level | None:
        words = line.strip()
        if words.startswith(self._fence) and not words.strip(self._fence[0]):
            self._fence, self._after = "", _After.CODE
            return None
        level = Level.LINE if self._after is _After.CODE else None
        self._after = _After.CODE
        return level

    def _text(self, line: str, *, opens: bool) -> Level | None:
        after, self._after = self._after, _After.TEXT
        if _HEADING.match(line):
            self._after = _After.HEADING
            return Level.HEADING
        if after is _After.HEADING:
            return None
        if self._blank or after is _After.CODE:
            return Level.PARAGRAPH
        return Level.SENTENCE if opens or _ITEM.match(line) else None


def _inner(text: str, start: int, end: int, level: Level) -> Iterator[Place]:
    """Yield the places inside a long piece, and that at its end."""
    for word in _WORD.finditer(text, start, end):
        if word.end() - start > _LONGEST_WORD:
            for inside in _anywhere(text, start, word.end()):
                yield _place(text, start, inside, Level.ANYWHERE)
                start = inside
        if word.end() > start:
            yield _place(text, start, word.end(), level if word.end() == end else Level.WORD)
            start = word.end()


def _anywhere(text: str, start: int, end: int) -> Iterator[int]:
    """Yield ends inside a run of characters that depend on what stands around them."""
    last = start
    for at in range(start + _CONTEXT, end):
        context = text[at - _CONTEXT : at].encode("utf-8", "surrogatepass")
        if at - last == _LONGEST_WORD or crc32(context) % _ONE_IN == 0:
            yield at
            last = at
