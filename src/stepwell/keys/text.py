"""Named steps that make prose comparable. Code is never touched.

A prompt is cut into prose and code first: fenced blocks (CommonMark 0.31, 4.5: three or more
backticks or tildes) and inline code spans are code, an unclosed fence runs to the end. Steps
see prose only, and ``trim`` stops at code.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum


class TextStep(StrEnum):
    """A normalisation of prose, in the order they are applied."""

    NEWLINES = "newlines"
    """CR LF and CR become LF."""
    SQUEEZE = "squeeze"
    """A run of blanks becomes one space; three or more line ends become two."""
    FOLD = "fold"
    """Case folding, and no sentence punctuation at the end of the text. Changes what names and
    ``Translate 'US'`` mean: for namespaces that hold plain questions only."""
    UNICODE = "unicode"
    """Combining sequences become composed characters (NFC, UAX #15). Text that holds a character
    with a different canonical twin (Kelvin sign, CJK compatibility ideographs) stays as it is:
    there the code point may be the very thing asked about."""
    TRIM = "trim"
    """No white space at either end of the text."""


DEFAULT_STEPS = (TextStep.NEWLINES, TextStep.UNICODE, TextStep.TRIM)

_FENCE = re.compile(r"(?:\A|(?<=[\r\n])) {0,3}(`{3,}|~{3,})([^\r\n]*)")
_TICKS = re.compile("`+")
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r"\n(?:[^\S\n]*\n){2,}")
_SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What `str.isspace` calls a space."""
_END_OF_SENTENCE = "?!.…。？！．" + _SPACES


def normalise(text: str, steps: Iterable[TextStep]) -> str:
    """Return ``text`` with ``steps`` applied to its prose, in the order of `TextStep`.

    Idempotent. Linear in the length of the text; most prompts need no change and are returned
    as they are after three scans in C.
    """
    wanted = frozenset(steps)
    if _is_plain(text, wanted):
        return text
    cut = list(prose_and_code(text))
    for step in TextStep:
        if step in wanted:
            cut = _STEPS[step](cut)
    return "".join([piece for piece, _ in cut])


def _is_plain(text: str, wanted: frozenset[TextStep]) -> bool:
    """Return whether no default step changes ``text`` and no other step is wanted."""
    return (
        wanted <= _DEFAULT_SET
        and "\r" not in text
        and (text.isascii() or unicodedata.is_normalized("NFC", text))
        and text == text.strip()
    )


_DEFAULT_SET = frozenset(DEFAULT_STEPS)

Piece = tuple[str, bool]
"""Text, and whether it is prose."""


def prose_and_code(text: str) -> Iterator[Piece]:
    """Cut ``text`` into prose and code; joined, the pieces are ``text`` again.

    Code keeps its fences and backticks. Linear in the length of the text.
    """
    # At the fences first; what lies outside is cut again at inline code.
    if "`" not in text and "~~~" not in text:
        yield text, True
        return
    start = search_from = 0
    while opening := _FENCE.search(text, search_from):
        marks, info = opening.groups()
        search_from = opening.end()
        if marks[0] == "`" and "`" in info:
            continue  # An info string holds no backtick: this is inline code (example 145).
        yield from _prose(text[start : opening.start()])
        start = search_from = _end_of_fence(text, opening.end(), marks)
        yield text[opening.start() : start], False
    yield from _prose(text[start:])


def _end_of_fence(text: str, start: int, marks: str) -> int:
    mark, length = re.escape(marks[0]), len(marks)
    closing = re.compile(rf"(?<=[\r\n]) {{0,3}}{mark}{{{length},}}[ \t]*(?=[\r\n]|\Z)")
    found = closing.search(text, start)
    return found.end() if found else len(text)


def _prose(text: str) -> Iterator[Piece]:
    """Cut out inline code: from a run of backticks to the next run of the same length.

    More generous than CommonMark, where a blank line ends the search: too much taken for code
    only costs a hit. Linear: each run knows the next one of its length beforehand.
    """
    runs = list(_TICKS.finditer(text))
    partner: dict[int, re.Match[str]] = {}
    latest: dict[int, re.Match[str]] = {}
    for run in reversed(runs):
        length = len(run[0])
        if length in latest:
            partner[run.start()] = latest[length]
        latest[length] = run
    start = 0
    for run in runs:
        if run.start() < start or run.start() not in partner:
            continue
        if run.start() > start:
            yield text[start : run.start()], True
        end = partner[run.start()].end()
        yield text[run.start() : end], False
        start = end
    if start < len(text):
        yield text[start:], True


def _map(change: Callable[[str], str]) -> Callable[[list[Piece]], list[Piece]]:
    return lambda pieces: [(change(piece) if prose else piece, prose) for piece, prose in pieces]


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _compose(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    if composed == text or any(unicodedata.normalize("NFC", mark) != mark for mark in set(text)):
        return text
    return composed


def _squeeze(text: str) -> str:
    return _LINE_ENDS.sub("\n\n", _BLANKS.sub(" ", text))


def _fold(pieces: list[Piece]) -> list[Piece]:
    folded = [(piece.casefold() if prose else piece, prose) for piece, prose in pieces]
    return _trim_end(folded, lambda text: text.rstrip(_END_OF_SENTENCE))


def _trim(pieces: list[Piece]) -> list[Piece]:
    if pieces and pieces[0][1]:
        pieces = [(pieces[0][0].lstrip(), True), *pieces[1:]]
    return _trim_end(pieces, str.rstrip)


def _trim_end(pieces: list[Piece], trim: Callable[[str], str]) -> list[Piece]:
    if pieces and pieces[-1][1]:
        return [*pieces[:-1], (trim(pieces[-1][0]), True)]
    return pieces


_STEPS: dict[TextStep, Callable[[list[Piece]], list[Piece]]] = {
    TextStep.NEWLINES: _map(_newlines),
    TextStep.SQUEEZE: _map(_squeeze),
    TextStep.FOLD: _fold,
    TextStep.UNICODE: _map(_compose),
    TextStep.TRIM: _trim,
}
