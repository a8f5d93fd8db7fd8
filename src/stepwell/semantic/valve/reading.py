"""A text as the valve reads it: words with their places, and literal spans apart."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Any, NamedTuple, TypeVar

import rjieba

from stepwell.semantic.valve.cutting import cut
from stepwell.semantic.valve.tables import simplified

MAX_CHARACTERS = 20_000
"""Longer texts are over any embedder's window; reading them would only cost time."""

_Fact = TypeVar("_Fact")


class Script(Enum):
    """What a word is written in."""

    LATIN = auto()
    """Letters of any alphabet; an apostrophe, a hyphen or ``&`` may join them, digits may be among:
    ``don't``, ``gpt-4o``, ``v3.11``. Dots of an abbreviation are in `Word.written` only."""
    HAN = auto()
    """A Chinese word, as segmented."""
    NUMBER = auto()
    """Begins with a digit, or a point and a digit, and holds digits, separators and perhaps
    letters: ``1,000``, ``3.11``, ``7am``, ``10:30``, ``2024-05-01``, ``12-AB``. A word joined by a
    hyphen stands alone: ``5-year-old`` is ``5``, ``-``, ``year-old``."""
    IDENTIFIER = auto()
    """URL, e-mail address, path, file or host name, flag, ``C++``, ``C#``, ``.NET``."""
    SYMBOL = auto()
    """One character of anything else that is not blank."""


class Word(NamedTuple):
    """One word of a text."""

    text: str
    """Case-folded `written`; abbreviations without dots (``p.m.`` is ``pm``)."""
    written: str
    """As it stands in `Reading.prose`, case kept."""
    start: int
    """Offset in `Reading.prose`."""
    script: Script
    tag: str = ""
    """Part of speech of a Chinese word, as jieba tags it; empty for others."""

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
    """The text with literal spans blanked out, then composed: NFKC, simplified characters, plain
    apostrophes and hyphens, ``½`` as ``1/2``, ``x²`` as ``x^2``. Case is kept."""
    words: tuple[Word, ...]
    """The words of ``prose``, in order."""
    literals: tuple[str, ...]
    """Quoted and fenced spans without their marks, to the letter, in order."""
    _facts: dict[Callable[["Reading"], Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def is_chinese(self) -> bool:
        """Whether most of its words are Chinese."""
        return self.fact(_is_chinese)

    @property
    def vocabulary(self) -> frozenset[str]:
        """The texts of its words."""
        return self.fact(_vocabulary)

    @property
    def opened(self) -> "Reading":
        """The same text with nothing cut out: quoted and fenced words are words of its prose."""
        return self.fact(_open)

    def fact(self, find: Callable[["Reading"], _Fact]) -> _Fact:
        """Return ``find(self)``, found once: what a check needs to know of each text.

        Threads may share a reading; at worst two of them find the same.
        """
        if find not in self._facts:
            self._facts[find] = find(self)
        return self._facts[find]  # type: ignore[no-any-return]  # Kept under what found it.


def read(text: str) -> Reading:
    """Return ``text`` as the valve reads it. Linear; some 20 us for a question of 20 words."""
    prose, literals = cut(text[:MAX_CHARACTERS])
    return _read(text, prose, literals)


def _open(reading: Reading) -> Reading:
    return _read(reading.text, reading.text[:MAX_CHARACTERS], ()) if reading.literals else reading


def _vocabulary(reading: Reading) -> frozenset[str]:
    return frozenset([word.text for word in reading.words])


def _is_chinese(reading: Reading) -> bool:
    if reading.prose.isascii():
        return False
    han = sum(word.script is Script.HAN for word in reading.words)
    latin = sum(word.script is Script.LATIN for word in reading.words)
    return han > latin


_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff〇"
_LETTER = rf"[^\W\d_{_CHINESE}]"
_SIGN = rf"[^\W{_CHINESE}]"
_ENDINGS = (
    "com|org|net|edu|gov|io|ai|cn|py|js|ts|jsx|tsx|mjs|java|c|h|cpp|hpp|cs|rs|rb|php|kt|swift|sh|"
    "bat|ps1|sql|html?|css|scss|jsonl?|ya?ml|toml|xml|csv|tsv|ini|cfg|conf|env|log|md|rst|txt|pdf|"
    "docx?|xlsx?|pptx?|png|jpe?g|gif|svg|webp|mp[34]|wav|avi|mkv|mov|zip|rar|7z|tar|gz|exe|msi|dll|"
    "so|apk|dmg|iso|jar|ipynb|parquet|db|lock|gitignore|dockerfile|bashrc|asp"
)
"""What a dotted name must end in: people forget the blank after a full stop."""

_ADDRESS = rf"[^\s<>\"'(){_CHINESE}，。；！？、）（]*[^\s<>\"'(){_CHINESE}，。；！？、）（.,;:!?]"
_END = rf"(?![^\s.,;:!?)\]\"'{_CHINESE}])"
_IDENTIFIER = (
    "(?P<identifier>"
    rf"(?i:https?://|ftp://|www\.){_ADDRESS}"
    rf"|{_SIGN}(?:{_SIGN}|[.+\-]){{0,63}}@{_SIGN}+(?:[.\-]{_SIGN}+){{1,9}}"
    rf"|{_SIGN}(?:{_SIGN}|[.\-/]){{0,80}}\.(?i:{_ENDINGS})(?!{_SIGN})(?:/{_ADDRESS})?"
    rf"|(?<!\S)\.(?i:{_ENDINGS})(?!{_SIGN})"
    rf"|(?<![\w/)\[\].<])(?:~|\.{{1,2}})?(?:/{_SIGN}(?:{_SIGN}|[.\-])*){{1,40}}/?"
    r"|(?<!\S)--[A-Za-z](?:[A-Za-z\d]|[\-_])*|(?<!\S)-[A-Za-z]{1,3}(?!\S)"
    rf"|[A-Za-z]{_SIGN}{{0,20}}(?:\+{{1,2}}|#){_END}"
    ")|"
)
"""Parts that could be tried from many places are bounded."""

_PLAIN = (
    rf"(?P<number>(?:(?<![\w.])\.)?\d(?:{_SIGN}|[.,:/]\d|-[A-Z\d])*)"
    rf"|(?P<han>[{_CHINESE}]+)"
    rf"|(?P<abbreviation>{_LETTER}(?:\.{_LETTER})+(?!{_SIGN})\.?)"
    rf"|(?P<latin>_*{_LETTER}{_SIGN}*(?:['\-&]{_SIGN}+|(?<=\d)\.\d{_SIGN}*)*)"
    r"|(?P<symbol>\S)"
)
_WORD, _PLAIN_WORD = re.compile(_IDENTIFIER + _PLAIN), re.compile(_PLAIN)
_MAYBE_IDENTIFIER = re.compile(r"[@/#+]|\.[A-Za-z]|(?<!\S)-[A-Za-z\-]|(?i:www)")
"""Looking for identifiers at every word costs as much as all the rest."""

_SCRIPTS = {
    "identifier": Script.IDENTIFIER,
    "number": Script.NUMBER,
    "abbreviation": Script.LATIN,
    "latin": Script.LATIN,
    "symbol": Script.SYMBOL,
}


@cache
def _plainer() -> dict[int, str]:
    """Return what stands for a character before NFKC, which would lose the difference."""
    raised = {0x2070: "^0", 0xB9: "^1", 0xB2: "^2", 0xB3: "^3"}
    raised |= {0x2070 + n: f"^{n}" for n in range(4, 10)}
    fractions = {ord(char): unicodedata.normalize("NFKC", char) for char in "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
    hyphens = dict.fromkeys(map(ord, "‐‑‒–−"), "-")
    apostrophes = dict.fromkeys(map(ord, "‘’ʼ＇"), "'")
    spaced = {char: f" {text.replace('⁄', '/')}" for char, text in fractions.items()}
    # A comma between Chinese numbers lists them; it sets no thousands apart.
    return simplified() | raised | spaced | hyphens | apostrophes | {ord("，"): ", "}


def _read(text: str, prose: str, literals: tuple[str, ...]) -> Reading:
    if not prose.isascii():
        prose = unicodedata.normalize("NFKC", prose.translate(_plainer()))
    words: list[Word] = []
    pattern = _WORD if _MAYBE_IDENTIFIER.search(prose) else _PLAIN_WORD
    for found in pattern.finditer(prose):
        piece, start, kind = found[0], found.start(), found.lastgroup or "symbol"
        if kind == "han":
            for part, tag in rjieba.tag(piece):
                words.append(Word(part, part, start, Script.HAN, tag))
                start += len(part)
        else:
            plain = piece.replace(".", "") if kind == "abbreviation" else piece
            words.append(Word(plain.casefold(), piece, start, _SCRIPTS[kind]))
    return Reading(text, prose, tuple(words), literals)
