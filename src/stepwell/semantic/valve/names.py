"""The names the valve knows: closed sets with all their spellings, from data files."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from stepwell.semantic.valve.reading import HAN, Reading, Word
from stepwell.semantic.valve.tables import lines


class Weight(Enum):
    """What it means if one text has a name that the other lacks."""

    MUST = auto()
    """They ask for different things."""
    MAY = auto()
    """They do if the other has a name that this one lacks."""
    ALTERNATIVE = auto()
    """They do if the other has one of the same kind that this one lacks."""


class Name(NamedTuple):
    """One thing that has names."""

    kind: str
    """``country``, ``company``, ``colour``, ..."""
    text: str
    """The same for all its spellings, in both languages."""
    weight: Weight


class Mention(NamedTuple):
    """A name that stands in a text."""

    name: Name
    first: int
    """Index of its first word."""
    behind: int
    """Index behind its last word."""


class _Spelling(NamedTuple):
    rest: tuple[str, ...]
    """The words behind the first."""
    is_capital: bool
    """It is a name in capitals only."""
    name: Name


_MOST_PARTS = 4
_FILES = (
    ("names.txt", Weight.MUST),
    ("sets.txt", Weight.ALTERNATIVE),
    ("attributes.txt", Weight.ALTERNATIVE),
)


class Names:
    """All that the data files list."""

    def __init__(self) -> None:
        """Read the package's data files."""
        self._latin: dict[str, list[_Spelling]] = {}
        self._han: dict[str, Name] = {}
        self._heads: set[str] = set()
        for file, weight in _FILES:
            for line in lines(file):
                self._add(line, weight)
        for spellings in self._latin.values():
            spellings.sort(key=lambda spelling: -len(spelling.rest))

    def _add(self, line: str, weight: Weight) -> None:
        kind, first, *others = line.split()
        if first.startswith("~"):
            weight = Weight.MAY
        name = Name(kind, first.lstrip("~^"), weight)
        for spelling in (first.lstrip("~"), *others):
            words = [plain(word) for word in spelling.lstrip("^").split("_")]
            if words[0].isascii():
                found = _Spelling(tuple(words[1:]), spelling.startswith("^"), name)
                self._latin.setdefault(words[0], []).append(found)
            else:
                self._han[words[0]] = name
                self._heads.add(words[0][0])

    def find(self, reading: Reading) -> Iterator[Mention]:
        """Yield the names in a text, the longest at each place."""
        behind = 0
        latin = self._latin
        for index, word in enumerate(reading.words):
            if index < behind:
                continue
            if word.script is HAN:
                found = self._joined(reading.words, index) or self._chinese(word.text, index)
            elif word.text in latin or "'" in word.text:
                found = self._longest(latin.get(plain(word.text), ()), reading, index)
            else:
                continue
            if found is not None:
                behind = found.behind
                yield found

    def _longest(
        self, spellings: Sequence[_Spelling], reading: Reading, index: int
    ) -> Mention | None:
        words = reading.words
        is_capital = words[index].written[0].isupper() and (index > 0 or reading.is_chinese)
        following = plain(words[index + 1].text) if index + 1 < len(words) else ""
        for spelling in spellings:
            # Most end here: many names begin with "how".
            if spelling.rest and spelling.rest[0] != following:
                continue
            behind = index + 1 + len(spelling.rest)
            rest = tuple(plain(word.text) for word in words[index + 1 : behind])
            if spelling.rest == rest and (is_capital or not spelling.is_capital):
                return Mention(spelling.name, index, behind)
        return None

    def _joined(self, words: Sequence[Word], index: int) -> Mention | None:
        """Return a name that the segmenter has cut in two or three: ``花呗``, ``谷歌浏览器``."""
        if words[index].text[0] not in self._heads:
            return None
        for behind in range(min(index + _MOST_PARTS, len(words)), index + 1, -1):
            name = self._han.get("".join([word.text for word in words[index:behind]]))
            if name is not None:
                return Mention(name, index, behind)
        return None

    def _chinese(self, word: str, index: int) -> Mention | None:
        """Return what a word names, or the longest name it begins or ends with: ``法国人``."""
        name = self._han.get(word)
        for length in range(len(word) - 1, 1, -1):
            name = name or self._han.get(word[:length]) or self._han.get(word[-length:])
        return Mention(name, index, index + 1) if name else None


def mentions(reading: Reading) -> tuple[Mention, ...]:
    """Return the listed names in a text."""
    return tuple(names().find(reading))


def plain(word: str) -> str:
    """Return a word without the ending of a genitive."""
    return word.removesuffix("'s").removesuffix("'") if "'" in word else word


@cache
def names() -> Names:
    """Return the names of the data files, which are read once."""
    return Names()
