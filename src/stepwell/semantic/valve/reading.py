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
from stepwell.semantic.valve.invisible import shown
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


LATIN, HAN, NUMBER = Script.LATIN, Script.HAN, Script.NUMBER
IDENTIFIER, SYMBOL = Script.IDENTIFIER, Script.SYMBOL
"""By names of their own: checks ask for them at every word, and before Python 3.12 looking up a
member of an enum costs four times as much."""


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
        facts = self._facts
        if find not in facts:
            facts[find] = find(self)
        return facts[find]  # type: ignore[no-any-return]  # Kept under what found it.


def read(text: str) -> Reading:
    """Return ``text`` as the valve reads it. Linear; some 20 us for a question of 20 words."""
    prose, literals = cut(shown(text[:MAX_CHARACTERS]))
    return _read(text, prose, literals)


def _open(reading: Reading) -> Reading:
    return (
        _read(reading.text, shown(reading.text[:MAX_CHARACTERS]), ())
        if reading.literals
        else reading
    )


def _vocabulary(reading: Reading) -> frozenset[str]:
    return frozenset([word.text for word in reading.words])


def _is_chinese(reading: Reading) -> bool:
    if reading.prose.isascii():
        return False
    han = sum(word.script is HAN for word in reading.words)
    latin = sum(word.script is LATIN for word in reading.words)
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
    r"(?P<word>[A-Za-z]++(?=[\s,?!]|$))"  # What most are; all that follow would take it as latin.
    rf"|(?P<number>(?:(?<![\w.])\.)?\d(?:{_SIGN}|[.,:/]\d|-[A-Z\d])*)"
    rf"|(?P<han>[{_CHINESE}]+)"
    rf"|(?P<abbreviation>{_LETTER}(?:\.{_LETTER})+(?!{_SIGN})\.?)"
    rf"|(?P<latin>(?<!_)_*{_LETTER}{_SIGN}*(?:['\-&]{_SIGN}+|(?<=\d)\.\d{_SIGN}*)*)"
    r"|(?P<symbol>\S)"
)
_WORD, _PLAIN_WORD = re.compile(rf"\s*+(?:{_IDENTIFIER}{_PLAIN})"), re.compile(rf"\s*+(?:{_PLAIN})")
_MAYBE_IDENTIFIER = re.compile(r"@|/|#|\+|\.[A-Za-z]|-(?<!\S-)[A-Za-z\-]|w[wW]{2}|W[wW]{2}")
"""Looking for identifiers at every word costs as much as all the rest. Every alternative begins
with a letter of its own: a search for a set of characters is quick where none of them is."""

_SCRIPTS = {
    "word": LATIN,
    "identifier": IDENTIFIER,
    "number": NUMBER,
    "abbreviation": LATIN,
    "latin": LATIN,
    "symbol": SYMBOL,
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
    for found in pattern.finditer(prose.rstrip()):
        kind = found.lastgroup or "symbol"
        piece, start = found[kind], found.start(kind)
        if kind == "han":
            for part, tag in rjieba.tag(piece):
                words.append(Word(part, part, start, HAN, tag))
                start += len(part)
        else:
            plain = piece.replace(".", "") if kind == "abbreviation" else piece
            words.append(Word(plain.casefold(), piece, start, _SCRIPTS[kind]))
    return Reading(text, prose, tuple(words), literals)
