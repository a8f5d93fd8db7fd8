"""A text as the valve reads it: words with their places, and literal spans apart."""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum, auto

import rjieba

MAX_CHARACTERS = 20_000
"""Longer texts are over any embedder's window; reading them would only cost time."""


class Script(Enum):
    """What a word is written in."""

    LATIN = auto()
    """Letters of any alphabet; an apostrophe or a hyphen may join them, digits may be among."""
    HAN = auto()
    """A Chinese word, as segmented."""
    NUMBER = auto()
    """Begins with a digit and holds digits, separators and perhaps letters: ``1,000``, ``3.11``,
    ``7am``, ``10:30``, ``2024-05-01``."""
    SYMBOL = auto()
    """One character of anything else that is not blank."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text."""

    text: str
    """Compatibility-composed (NFKC) and case-folded."""
    written: str
    """As it stands in the NFKC form of the text, case kept."""
    start: int
    """Offset in `Reading.prose`."""
    script: Script

    @property
    def end(self) -> int:
        """Offset behind the word in `Reading.prose`."""
        return self.start + len(self.written)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, read once and compared with many."""

    text: str
    """As it was given."""
    prose: str
    """The text in NFKC, literal spans blanked out (same length, spaces)."""
    words: tuple[Word, ...]
    """The words of ``prose``, in order."""
    literals: tuple[str, ...]
    """Quoted and fenced spans, to the letter, in order."""

    @property
    def is_chinese(self) -> bool:
        """Whether most of its words are Chinese."""
        han = sum(word.script is Script.HAN for word in self.words)
        latin = sum(word.script is Script.LATIN for word in self.words)
        return han > latin


_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff〇"
_LETTER = rf"[^\W\d_{_CHINESE}]"
_SIGN = rf"[^\W{_CHINESE}]"
_WORD = re.compile(
    rf"(?P<number>\d(?:[.,:/\-]?{_SIGN})*)"
    rf"|(?P<han>[{_CHINESE}]+)"
    rf"|(?P<latin>{_LETTER}{_SIGN}*(?:['’\-]{_SIGN}+)*)"
    r"|(?P<symbol>\S)"
)


def read(text: str) -> Reading:
    """Return ``text`` as the valve reads it. Linear; some 20 us for a question of 20 words."""
    prose = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS])
    words: list[Word] = []
    for found in _WORD.finditer(prose):
        piece, start = found[0], found.start()
        match found.lastgroup:
            case "han":
                for part in rjieba.cut(piece):
                    words.append(Word(part, part, start, Script.HAN))
                    start += len(part)
            case "number":
                words.append(Word(piece.casefold(), piece, start, Script.NUMBER))
            case "latin":
                words.append(Word(piece.casefold(), piece, start, Script.LATIN))
            case _:
                words.append(Word(piece, piece, start, Script.SYMBOL))
    return Reading(text, prose, tuple(words), ())
