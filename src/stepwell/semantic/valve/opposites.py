"""A dictionary of opposites, and which of its words a text holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stepwell.core.errors import ConfigError
from stepwell.semantic.valve import denial_chinese, denial_english
from stepwell.semantic.valve.english import fold, pieces
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.tables import lines

_MAX_BYTES = 1 << 20
"""Of a file of opposites: ten thousand lines of a hundred bytes."""
_PLACED = "~"
_ARTICLES = frozenset(("a", "an", "the", "my", "your", "my", "of", "to"))


class Hit(NamedTuple):
    """A word of the dictionary in a text."""

    group: int
    side: int
    """0 or 1."""
    word: str
    denies: bool
    """Whether the word is itself a denial: non-refundable, 无效."""
    before: str
    """What stands before it, if that must be the same in both texts; else empty."""
    behind: str
    """What stands behind it, likewise."""


class _Entry(NamedTuple):
    folds: tuple[str, ...]
    group: int
    side: int
    is_placed: bool
    denies: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a text holds of a dictionary."""

    anywhere: frozenset[Hit]
    """Words that count wherever they stand."""
    placed: frozenset[Hit]
    """All words, each once for every neighbour: those that count where that is the same too."""


class Opposites:
    """Groups of words and their opposites, English and Chinese.

    Each line is ``word, word of two, word | word, word``: one side, a bar, the other side. Every
    word of one side is the opposite of every word of the other. ``~word`` counts only where what
    stands before or behind it is the same in both texts; a single Chinese character always does,
    and needs both neighbours. ``#`` begins a comment.

    Raises:
        ConfigError: A line has no bar, or no word on one side of it.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._english: dict[str, list[_Entry]] = {}
        self._chinese: dict[str, list[_Entry]] = {}
        self._longest = 0
        for group, line in enumerate(lines):
            for side, words in enumerate(_sides(line)):
                for word in words.split(","):
                    self._add(word.strip().casefold(), group, side)
        for entries in self._english.values():
            entries.sort(key=lambda entry: -len(entry.folds))

    def _add(self, word: str, group: int, side: int) -> None:
        bare = word.removeprefix(_PLACED)
        if bare.isascii():
            folds = tuple(fold(piece) for part in bare.split() for piece in pieces(part))
            if folds:
                denies = bool(denial_english.denials(f" {' '.join(folds)} "))
                entry = _Entry(folds, group, side, word != bare, denies)
                self._english.setdefault(folds[0], []).append(entry)
        else:
            denies = bool(denial_chinese.denials(bare))
            entry = _Entry((bare,), group, side, word != bare or len(bare) == 1, denies)
            self._chinese.setdefault(bare, []).append(entry)
            self._longest = max(self._longest, len(bare))

    def find(self, reading: Reading) -> Found:
        """Return the words of this dictionary that are in ``reading``."""
        mine = outline(reading)
        anywhere: set[Hit] = set()
        placed: set[Hit] = set()
        self._find_english(mine.folds, anywhere, placed)
        if mine.han:
            self._find_chinese(mine.han, anywhere, placed)
        return Found(frozenset(anywhere), frozenset(placed))

    def _find_english(self, folds: tuple[str, ...], anywhere: set[Hit], placed: set[Hit]) -> None:
        taken = 0
        known = self._english
        for position in [place for place, word in enumerate(folds) if word in known]:
            if position < taken:
                continue
            entries = self._at(folds, position)
            for _, group, side, is_placed, denies in entries:
                phrase = " ".join(entries[0].folds)
                length = len(entries[0].folds)
                taken = position + length
                if not is_placed:
                    anywhere.add(Hit(group, side, phrase, denies, "", ""))
                before = _neighbour(folds, position - 1, -1)
                behind = _neighbour(folds, position + length, 1)
                placed.add(Hit(group, side, phrase, denies, before, ""))
                placed.add(Hit(group, side, phrase, denies, "", behind))

    def _at(self, folds: tuple[str, ...], position: int) -> list[_Entry]:
        """Return the longest entries that begin at ``position``."""
        found: list[_Entry] = []
        for entry in self._english.get(folds[position], ()):
            length = len(entry.folds)
            if found and length < len(found[0].folds):
                break
            if length == 1 or folds[position : position + length] == entry.folds:
                found.append(entry)
        return found

    def _find_chinese(self, han: str, anywhere: set[Hit], placed: set[Hit]) -> None:
        position, end = 0, len(han)
        while position < end:
            length = min(self._longest, end - position)
            while length > 1 and han[position : position + length] not in self._chinese:
                length -= 1
            word = han[position : position + length]
            for entry in self._chinese.get(word, ()):
                if not entry.is_placed:
                    anywhere.add(Hit(entry.group, entry.side, word, entry.denies, "", ""))
                before = han[position - 1] if position else "^"
                behind = han[position + length] if position + length < end else "$"
                placed.add(Hit(entry.group, entry.side, word, entry.denies, before, behind))
            position += length


def _neighbour(folds: tuple[str, ...], position: int, step: int) -> str:
    while 0 <= position < len(folds) and folds[position] in _ARTICLES:
        position += step
    return folds[position] if 0 <= position < len(folds) else "^"


def opposed(mine: Found, theirs: Found) -> tuple[Hit, Hit] | None:
    """Return a word and its opposite, if one text has the one where the other has the other.

    What both texts have does not count; nor does a text that has both itself. A pair that is no
    denial comes before one that is.
    """
    pairs = _opposed(mine.anywhere - theirs.anywhere, theirs.anywhere - mine.anywhere)
    pairs = pairs or _opposed(mine.placed - theirs.placed, theirs.placed - mine.placed)
    return min(pairs, key=lambda pair: (pair[0].denies or pair[1].denies, pair), default=None)


def _opposed(mine: frozenset[Hit], theirs: frozenset[Hit]) -> list[tuple[Hit, Hit]]:
    if not mine or not theirs:
        return []
    ours = {(hit.group, hit.side) for hit in mine}
    others = {(hit.group, hit.side) for hit in theirs}
    beside: dict[tuple[int, int, str, str], list[Hit]] = {}
    for hit in theirs:
        if (hit.group, 1 - hit.side) in ours and (hit.group, 1 - hit.side) not in others:
            beside.setdefault((hit.group, hit.side, hit.before, hit.behind), []).append(hit)
    return [
        (hit, other)
        for hit in (mine if beside else ())
        if (hit.group, 1 - hit.side) not in ours
        for other in beside.get((hit.group, 1 - hit.side, hit.before, hit.behind), ())
    ]


@cache
def shipped() -> Opposites:
    """Return the opposites that come with the package. Reads two files, once."""
    return Opposites([*lines("antonyms_en.txt"), *lines("antonyms_zh.txt")])


def read_opposites(path: Path) -> Opposites:
    """Return the opposites in a file of the shipped ones' form.

    Raises:
        ConfigError: The file cannot be read, is none or too large, or a line is not as it must be;
            names file and line.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"opposites: {path} is no file.")
        with path.open("rb") as file:
            read = file.read(_MAX_BYTES + 1)
        if len(read) > _MAX_BYTES:
            raise ConfigError(f"opposites: {path} has more than {_MAX_BYTES} bytes.")
        written = read.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"opposites: {path} cannot be read: {error}") from error
    own = [line.partition("#")[0].strip() for line in written]
    for number, line in enumerate(own, 1):
        try:
            if line:
                _sides(line)
        except ConfigError as error:
            raise ConfigError(f"opposites: {path} line {number}: {error}") from error
    return Opposites(line for line in own if line)


def _sides(line: str) -> list[str]:
    """Return the words of one side of a group, and of the other.

    Raises:
        ConfigError: There is no bar, or nothing on one side of it.
    """
    sides = line.split("|")
    if len(sides) != 2 or not all(side.strip() for side in sides):  # noqa: PLR2004
        raise ConfigError(f"{line!r}; expected 'words | words'")
    return sides
