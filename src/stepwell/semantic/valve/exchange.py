"""Two things that have changed places in sentences that were reworded around them.

Ann has 3 and Bob has 5, Ann has 5 and Bob has 3: each of two things stands where the other stood,
by the words beside it. What moves with its words (a clause in front, a turned list) has changed
nothing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.numerals import NUMBER_WORDS
from stepwell.semantic.valve.outline import folded
from stepwell.semantic.valve.reading import HAN, LATIN, SYMBOL, Reading, Word

_BREAKS = frozenset(",.;!?:。;")
_BE = frozenset("is are was were be been".split())
_DROPPED = frozenset("a an the has have had did do does 的 了 是 着".split())
_LISTING = frozenset(
    "and or nor & / 、 和 与 及 以及 或 或者 还是 跟 同 , also both 还有 并 vs versus ".split()
)
_HAN_LISTING = frozenset("和与及或跟同")
_USE = fold("use")
_EDGE = "^"
_REACH = 4
"""Words on either side that say what a thing does."""
_MOST_MOVED = 24
"""Pairs out of order; with more, a text was not edited but written anew."""
_LEAST, _LEAST_OF_SURE = 3, 2
"""So many more words must speak for an exchange than against it: in Chinese, and of numbers; of
other English words, so many more than twice those."""
_LONGEST = 120
"""Words; in longer texts every pair of things would be too many."""
_LONG = 15
"""Words and signs of a sentence in which plain nouns are looked at; in short ones the frame is."""
_NAMES = ("nr", "ns", "nt", "nz", "m")
"""Tags of Chinese names and numbers."""


@dataclass(frozen=True, slots=True)
class Places:
    """The words of a text and where each stands."""

    folds: tuple[str, ...]
    at: dict[str, int]
    """Folds that occur once, and where."""
    things: frozenset[str]
    """Folds of what may change places."""
    is_chinese: bool
    is_long: bool
    is_passive: bool
    """Whether something is done in it to what it is about."""


def places(reading: Reading) -> Places:
    """Return the places of a text's words."""
    words = [
        word
        for word in reading.words
        if word.text not in _DROPPED
        and (word.script is not SYMBOL or word.text in _BREAKS or word.text in _LISTING)
    ]
    is_passive = False
    if not _BE.isdisjoint(reading.vocabulary):
        is_passive = _is_passive(words)
        words = [word for word in words if word.text not in _BE]
    folds = tuple(_fold(word) for word in words)
    counts = Counter(folds)
    return Places(
        folds,
        {fold: index for index, fold in enumerate(folds) if counts[fold] == 1},
        reading.fact(things),
        reading.is_chinese,
        _is_long(reading),
        is_passive,
    )


def things(reading: Reading) -> frozenset[str]:
    """Return the folds of the words that may change places."""
    is_long = _is_long(reading)
    return frozenset([_fold(word) for word in reading.words if _is_thing(word, is_long)])


def _is_long(reading: Reading) -> bool:
    return len(reading.words) > _LONG


def _is_passive(words: Sequence[Word]) -> bool:
    """Return whether there is a form of "be" and a participle right behind, or one word later."""
    return any(
        word.text in _BE and any(other.text.endswith("ed") for other in words[at + 1 : at + 3])
        for at, word in enumerate(words)
    )


def _fold(word: Word) -> str:
    return folded(word.text.removesuffix("'s")) if word.script is LATIN else word.text


def _is_thing(word: Word, is_long: bool) -> bool:  # noqa: FBT001 - asked of every word
    if word.script is LATIN:
        return word.written != word.text or word.text in NUMBER_WORDS
    if word.script is HAN:
        return (is_long and len(word.text) > 1) or word.tag.startswith(_NAMES)
    return word.script is not SYMBOL


def exchanged(mine: Places, theirs: Places) -> tuple[str, str] | None:
    """Return two things each of which has the other's place."""
    if mine.is_passive != theirs.is_passive or (mine.is_passive and _either_used(mine, theirs)):
        return None
    if max(len(mine.folds), len(theirs.folds)) > _LONGEST:
        return None
    runs = _runs(mine, theirs)
    moved = [pair for pair in combinations(runs, 2) if pair[0][1] > pair[1][1]]
    if len(moved) > _MOST_MOVED:
        return None
    for first, second in moved:
        if not _is_listed(first, second, mine, theirs) and _is_exchange(
            first, second, mine, theirs
        ):
            return _words(first, mine), _words(second, mine)
    return None


_Run = tuple[int, int, int]
"""Where it begins in the one text and in the other, and of how many words it is."""


def _runs(mine: Places, theirs: Places) -> list[_Run]:
    """Return the longest runs of words that stand together in both texts, each once."""
    runs: list[_Run] = []
    for word, here in mine.at.items():
        there = theirs.at.get(word)
        if there is None:
            continue
        if runs and runs[-1][0] + runs[-1][2] == here and runs[-1][1] + runs[-1][2] == there:
            first, second, length = runs[-1]
            runs[-1] = (first, second, length + 1)
        else:
            runs.append((here, there, 1))
    # What moves with its preposition or its verb stays what it was.
    return [run for run in runs if mine.folds[run[0]] in mine.things]


def _either_used(mine: Places, theirs: Places) -> bool:
    """Return whether a thing is said to be used: then it or what uses it may come first."""
    return _USE in mine.at or _USE in theirs.at


def _words(run: _Run, text: Places) -> str:
    return " ".join(text.folds[run[0] : run[0] + run[2]])


def _is_listed(first: _Run, second: _Run, mine: Places, theirs: Places) -> bool:
    """Return whether the two only stand side by side, or in one list, in both texts."""
    between = mine.folds[first[0] + first[2] : second[0]]
    others = theirs.folds[second[1] + second[2] : first[1]]
    if not between or not others:
        return not between and not others
    # In a short text whatever has an "or" between is a choice: is A good or B good?
    is_choice = not (mine.is_long or _is_number(first, mine))
    return all(_is_joint(words, anywhere=is_choice) for words in (between, others))


def _is_joint(words: Sequence[str], *, anywhere: bool) -> bool:
    """Return whether what is between two things only lists them."""
    if anywhere and not _LISTING.isdisjoint(words):
        return True
    first, last = words[0], words[-1]
    if not first.isascii():
        first = first[0]
    return first in _LISTING or last in _LISTING or last[-1:] in _HAN_LISTING


def _is_exchange(first: _Run, second: _Run, mine: Places, theirs: Places) -> bool:
    one = _apart(_beside(mine, first[0], first[2]), _beside(mine, second[0], second[2]))
    other = _apart(_beside(theirs, first[1], first[2]), _beside(theirs, second[1], second[2]))
    stays = _alike(one[0], other[0]) + _alike(one[1], other[1])
    swaps = _alike(one[0], other[1]), _alike(one[1], other[0])
    if min(swaps) == 0:
        return False
    if mine.is_chinese or (_is_number(first, mine) and _is_number(second, mine)):
        return sum(swaps) >= stays + _LEAST_OF_SURE
    return sum(swaps) >= 2 * stays + _LEAST


def _is_number(run: _Run, text: Places) -> bool:
    return run[2] == 1 and text.folds[run[0]].isdecimal()


_Beside = tuple[frozenset[str], frozenset[str]]
"""What stands before and behind."""


def _beside(text: Places, start: int, length: int) -> _Beside:
    before = text.folds[max(start - _REACH, 0) : start][::-1]
    behind = text.folds[start + length : start + length + _REACH]
    return frozenset(_near(before)), frozenset(_near(behind))


def _near(words: Sequence[str]) -> Iterator[str]:
    """Yield the words up to the next break; Chinese ones by their characters."""
    for word in words:
        if word in _BREAKS:
            yield _EDGE
            return
        yield from (word,) if word.isascii() else word
    if len(words) < _REACH:
        yield _EDGE


def _apart(one: _Beside, other: _Beside) -> tuple[_Beside, _Beside]:
    """Leave out what stands beside both."""
    before, behind = one[0] & other[0], one[1] & other[1]
    return (one[0] - before, one[1] - behind), (other[0] - before, other[1] - behind)


def _alike(one: _Beside, other: _Beside) -> int:
    return len(one[0] & other[0]) + len(one[1] & other[1])
