"""The names the valve knows: closed sets with all their spellings, from data files."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from stepwell.semantic.valve.reading import Script, Word
from stepwell.semantic.valve.tables import lines


class Name(NamedTuple):
    """One thing that has names."""

    kind: str
    """``country``, ``company``, ``colour``, ..."""
    name: str
    """The same for all its spellings, in both languages."""


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


class Names:
    """What one data file lists."""

    def __init__(self, file: str) -> None:
        """Read the package's data file ``file``."""
        self._latin: dict[str, list[_Spelling]] = {}
        self._han: dict[str, Name] = {}
        for line in lines(file):
            kind, first, *others = line.split()
            name = Name(kind, first.lstrip("^"))
            for spelling in (first, *others):
                self._add(spelling, name)
        for spellings in self._latin.values():
            spellings.sort(key=lambda spelling: -len(spelling.rest))
        self.words = frozenset(self._latin)
        """First words of spellings: a text without any of them holds none in Latin letters."""

    def _add(self, spelling: str, name: Name) -> None:
        words = [plain(word) for word in spelling.lstrip("^").split("_")]
        if not words[0].isascii():
            self._han[words[0]] = name
            return
        found = _Spelling(tuple(words[1:]), spelling.startswith("^"), name)
        self._latin.setdefault(words[0], []).append(found)

    def find(self, words: Sequence[Word]) -> Iterator[Mention]:
        """Yield the names among ``words``, the longest at each place."""
        index = 0
        while index < len(words):
            found = self._at(words, index)
            if found is not None:
                yield found
            index = found.behind if found is not None else index + 1

    def _at(self, words: Sequence[Word], index: int) -> Mention | None:
        word = words[index]
        if word.script is Script.HAN:
            name = self._of_chinese(word.text)
            return Mention(name, index, index + 1) if name else None
        for spelling in self._latin.get(plain(word.text), ()):
            behind = index + 1 + len(spelling.rest)
            if spelling.is_capital and not (index and word.written[0].isupper()):
                continue
            if spelling.rest == tuple(plain(word.text) for word in words[index + 1 : behind]):
                return Mention(spelling.name, index, behind)
        return None

    def _of_chinese(self, word: str) -> Name | None:
        """Return what a word names, or the longest name it begins or ends with: ``法国人``."""
        for length in range(len(word), 1, -1):
            name = self._han.get(word[:length]) or self._han.get(word[-length:])
            if name is not None:
                return name
        return self._han.get(word)


def plain(word: str) -> str:
    """Return a word without the ending of a genitive."""
    return word.removesuffix("'s").removesuffix("'")


@cache
def names() -> Names:
    """Return the names that must stand in both texts. Reads a file once."""
    return Names("names.txt")


@cache
def alternatives() -> Names:
    """Return the words of which one excludes the others. Reads a file once."""
    return Names("sets.txt")
