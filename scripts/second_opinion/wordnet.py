"""Relations of frequent English words from WordNet 3.0, whose licence allows any use.

Only the first sense of a word is used, and only where it is by far the usual one.
Format of the files: the manual pages wndb(5WN) and cntlist(5WN).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PARTS = {"noun": "n", "verb": "v", "adj": "a"}
_SENSE_PARTS = {"1": "n", "2": "v", "3": "a", "5": "a"}
_CROWD = 400
"""Words under a heading this broad have little in common."""

Key = tuple[str, str]
"""Part of speech (n, v, a) and word."""


@dataclass(frozen=True, slots=True)
class Relations:
    """What a word's first sense is related to."""

    count: int
    """How often the word was counted."""
    share: float
    """Share of its first sense."""
    same: list[str] = field(default_factory=list)
    opposite: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)
    """Words beside and below it: alike, and yet something else."""


@dataclass(frozen=True, slots=True)
class _Synset:
    words: list[str]
    pointers: list[tuple[str, str, str, int]]
    """Symbol, offset, part of speech, number of the word it starts from."""


class WordNet:
    """The relations of all frequent words."""

    def __init__(self, folder: Path) -> None:
        """Read the database files in ``folder``. Costs a few seconds."""
        self._synsets = dict(_synsets(folder))
        self._first = dict(_first_senses(folder))
        self._counts = _counts(folder)
        self.relations: dict[Key, Relations] = {}
        for key in sorted(self._first):
            if self._total(key) > 1 and len(key[1]) > 2:  # noqa: PLR2004
                self.relations[key] = self._relations(key)

    def _total(self, key: Key) -> int:
        return sum(self._counts.get(key, {}).values())

    def _relations(self, key: Key) -> Relations:
        part, word = key
        offset, total = self._first[key], self._total(key)
        synset = self._synsets[part, offset]
        near = [*self._beside(part, offset, word), *self._below(synset, part, word)]
        return Relations(
            count=total,
            share=self._counts[key].get(1, 0) / total,
            same=[
                other
                for other in synset.words
                if other not in (word, word.lower()) and self._is_first(part, other, offset)
            ],
            opposite=[
                self._synsets[other_part, other].words[0]
                for symbol, other, other_part, number in synset.pointers
                if symbol == "!" and number and synset.words[number - 1] == word
            ],
            near=near,
        )

    def _is_first(self, part: str, word: str, offset: str) -> bool:
        return (
            word.islower() and len(word) > 2 and self._first.get((part, word)) == offset  # noqa: PLR2004
        ) and self._total((part, word)) > 0

    def _beside(self, part: str, offset: str, word: str) -> Iterator[str]:
        above = [o for symbol, o, _, _ in self._synsets[part, offset].pointers if symbol == "@"]
        for parent in above[:1]:
            pointers = self._synsets[part, parent].pointers
            if len(pointers) <= _CROWD:
                for symbol, other, _, _ in pointers:
                    if symbol == "~" and other != offset:
                        yield from self._common(part, other, word, 4)

    def _below(self, synset: _Synset, part: str, word: str) -> Iterator[str]:
        for symbol, other, _, _ in synset.pointers:
            if symbol == "~":
                yield from self._common(part, other, word, 3)

    def _common(self, part: str, offset: str, word: str, least: int) -> Iterator[str]:
        for other in self._synsets[part, offset].words:
            plain = other.islower() and " " not in other and other != word
            first = self._first.get((part, other)) == offset
            if plain and first and self._total((part, other)) >= least:
                yield other


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="latin1") as lines:
        for line in lines:
            if not line.startswith("  "):
                yield line.split(" | ")[0].split()


def _synsets(folder: Path) -> Iterator[tuple[tuple[str, str], _Synset]]:
    for name, part in _PARTS.items():
        for fields in _lines(folder / f"data.{name}"):
            count = int(fields[3], 16)
            words = [fields[4 + 2 * i].split("(")[0].replace("_", " ") for i in range(count)]
            start = 5 + 2 * count
            pointers = [
                (fields[i], fields[i + 1], fields[i + 2], int(fields[i + 3][:2], 16))
                for i in range(start, start + 4 * int(fields[start - 1]), 4)
            ]
            yield (part, fields[0]), _Synset(words, pointers)


def _first_senses(folder: Path) -> Iterator[tuple[Key, str]]:
    for name, part in _PARTS.items():
        for fields in _lines(folder / f"index.{name}"):
            yield (part, fields[0].replace("_", " ")), fields[6 + int(fields[3])]


def _counts(folder: Path) -> dict[Key, dict[int, int]]:
    counts: dict[Key, dict[int, int]] = defaultdict(dict)
    for sense, number, count in _lines(folder / "cntlist.rev"):
        word, rest = sense.split("%")
        part = _SENSE_PARTS.get(rest[0])
        if part:
            counts[part, word.replace("_", " ")][int(number)] = int(count)
    return counts
