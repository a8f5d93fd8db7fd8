"""A word that stands in another clause, among other words, of a Chinese sentence.

Born in Turin, moved to Milan; born in Milan, moved to Turin. A clause or an adverbial that moves
takes its words along and has changed nothing; a word that leaves its own behind has another role.

Chinese only: English texts of that length are mostly written anew, with their clauses cut at other
places. Of English pairs with one answer it would have refused ten times as many as of others.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import Reading, Script

_BREAKS = frozenset(",。;:!?.")
_GRAMMAR = frozenset(
    "的了在于和与及或是有为被把将由从到对用以并但而也都就还又其之这那他她它们个一不中上下后前时年月日名位"
)
"""Characters that stand in any clause."""
_NO_ROLE = ("m", "t")
"""Tags of numbers and times: they stand where they please."""
_LONGEST = 200
"""Words; longer texts are passages."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the words of a Chinese text stand."""

    at: dict[str, int]
    """The clause of every word of content that occurs once, in order."""
    leading: frozenset[str]
    """Words with which a clause begins: what is said of them may go on in the next."""
    signs: tuple[frozenset[str], ...]
    """Of every clause, the characters that carry meaning."""


def surroundings(reading: Reading) -> Surroundings:
    """Return the clauses of a text, as commas and full stops part them."""
    words = reading.words[:_LONGEST]
    counts = Counter(word.text for word in words)
    content = outline(reading).content
    at: dict[str, int] = {}
    leading: set[str] = set()
    signs: list[set[str]] = [set()]
    is_first = True
    for word in words:
        if word.text in _BREAKS:
            signs.append(set())
            is_first = True
            continue
        if word.script is not Script.SYMBOL and word.text in content:
            signs[-1].update((word.text,) if word.text.isascii() else word.text)
            if counts[word.text] == 1 and _has_role(word.text, word.tag, word.script):
                at[word.text] = len(signs) - 1
                if is_first:
                    leading.add(word.text)
        is_first = False
    return Surroundings(at, frozenset(leading), tuple(frozenset(some - _GRAMMAR) for some in signs))


def _has_role(text: str, tag: str, script: Script) -> bool:
    if script is Script.HAN:
        return len(text) > 1 and not tag.startswith(_NO_ROLE)
    return script is not Script.NUMBER


def moved(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a word with those it stands among, if in the other text it stands among others."""
    mine, theirs = asked.fact(surroundings), stored.fact(surroundings)
    if len(mine.signs) == 1 and len(theirs.signs) == 1:
        return None
    ours, others = frozenset().union(*mine.signs), frozenset().union(*theirs.signs)
    for word in sorted(_out_of_order(mine, theirs)):
        if word in mine.leading and word in theirs.leading:
            continue
        own = {word, *word}
        here = (mine.signs[mine.at[word]] & others) - own
        there = (theirs.signs[theirs.at[word]] & ours) - own
        if here and there and len(here & there) * 2 <= min(len(here), len(there)):
            return _shown(word, here - there), _shown(word, there - here)
    return None


def _out_of_order(mine: Surroundings, theirs: Surroundings) -> list[str]:
    """Return the words both have of which some other stands on the other side."""
    ranks = {word: rank for rank, word in enumerate(theirs.at)}
    words = [word for word in mine.at if word in ranks]
    places = [ranks[word] for word in words]
    before = [-1, *accumulate(places, max)]
    behind = [*reversed([*accumulate(reversed(places), min)]), len(ranks)]
    return [
        word
        for index, word in enumerate(words)
        if before[index] > places[index] or behind[index + 1] < places[index]
    ]


def _shown(word: str, signs: frozenset[str]) -> str:
    return f"{word} {''.join(sorted(signs))}"
