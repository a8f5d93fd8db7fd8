"""Refuses what one text adds that changes the answer: be rude; in rhyme; lying; 用英语回答."""

from stepwell.semantic.valve.addition import NOT_COUNTED, Addition, addition
from stepwell.semantic.valve.clauses import Clause, are_several, clauses
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import HAN, SYMBOL, Reading
from stepwell.semantic.valve.telling_chinese import (
    is_manner_in_chinese,
    is_polite_in_chinese,
    told_in_chinese,
)
from stepwell.semantic.valve.telling_english import (
    begins_telling,
    content,
    is_command,
    is_manner,
    is_participle,
    is_statement,
    told,
)

_BRACKETS = frozenset("([")
_LEADING = frozenset(
    "in on at by for to from with without if when while once after before as since until because "
    "during under instead according".split()
)
"""What a clause begins with behind which the sentence itself comes."""
_TAG = frozenset(("not",))
_FULL_STOPS = frozenset(".!。")
_SHOWN = 12
"""Words of an instruction that the trail shows."""
_ROOT = 4
"""Words that begin with as many letters alike may say the same: rhyme, rhyming."""


def instruction(asked: Reading, stored: Reading) -> Difference | None:
    """Return what only one text tells to do, or the manner that is all it adds."""
    words = _more(asked, stored)
    if words:
        return Difference(Kind.INSTRUCTION, words, "")
    words = _more(stored, asked)
    return Difference(Kind.INSTRUCTION, "", words) if words else None


def _more(mine: Reading, theirs: Reading) -> str:
    return _told(mine, theirs) or _added(mine, theirs)


def _told(mine: Reading, theirs: Reading) -> str:
    """Return the clause of ``mine`` that tells what nothing in ``theirs`` does."""
    found = mine.fact(_telling)
    if not found:
        return ""
    characters, roots = theirs.fact(_characters), theirs.fact(_roots)
    for words, clause in found:
        lacking = [word for word in words if (word not in characters) and word[:_ROOT] not in roots]
        if lacking and len(lacking) * 2 >= len(words):
            return clause
    return ""


def _telling(reading: Reading) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the clauses that tell how to answer beside others that ask, each with its words."""
    if not are_several(reading):
        return ()
    mine = clauses(reading)
    found = []
    for clause in mine:
        words = _words_told(clause) if clause.opens or _is_added(mine, clause, reading) else ()
        if words and any(other is not clause and _asks(other) for other in mine):
            found.append((words, _shown(clause.tokens)))
    return tuple(found)


def _is_added(mine: tuple[Clause, ...], clause: Clause, reading: Reading) -> bool:
    """Return whether a clause is said behind the last comma, and is not what all else leads to."""
    if clause is not mine[-1] or _is_asked(outline(reading).tokens, clause):
        return False
    opening = next(other for other in reversed(mine) if other.opens)
    return opening.tokens[0].text not in _LEADING


def _words_told(clause: Clause) -> tuple[str, ...]:
    if clause.is_chinese:
        return tuple(sorted(set(told_in_chinese(clause.written))))
    return tuple(sorted(told(clause)))


def _asks(clause: Clause) -> bool:
    return clause.is_chinese or bool(content(clause.tokens))


def _characters(reading: Reading) -> frozenset[str]:
    return frozenset(outline(reading).han)


def _roots(reading: Reading) -> frozenset[str]:
    return frozenset([fold[:_ROOT] for fold in outline(reading).folds])


def _added(longer: Reading, shorter: Reading) -> str:
    """Return what changes the answer, if it is all that ``longer`` adds to ``shorter``."""
    place = addition(longer, shorter)
    if place is None:
        return ""
    stretch = outline(longer).tokens[place.start : place.end]
    if any(token.script is HAN for token in stretch):
        words = "".join(place.said)
        changes = is_manner_in_chinese(words) or bool(told_in_chinese(words))
    else:
        changes = _changes(longer, place)
    return _shown(stretch) if changes or _says_more(longer, place) else ""


def _says_more(longer: Reading, place: Addition) -> bool:
    """Return whether a clause of its own is added that is not only polite.

    It may tell the case, the tale or the answer: 瞎说; in my dream; my doctor says yes.
    """
    if not are_several(longer):
        return False
    tokens = outline(longer).tokens
    return any(
        not (_is_polite(clause, tokens) or (_is_aside(clause, tokens) and _names(clause)))
        for clause in clauses(longer)
        if _is_whole(clause, place)
    )


def _is_whole(clause: Clause, place: Addition) -> bool:
    """Return whether all that a clause says is added."""
    said = [
        clause.start + at
        for at, token in enumerate(clause.tokens)
        if token.script is not SYMBOL and token.text not in NOT_COUNTED
    ]
    return bool(said) and place.start <= said[0] and said[-1] < place.end


def _is_polite(clause: Clause, tokens: tuple[Token, ...]) -> bool:
    if clause.is_chinese:
        return is_polite_in_chinese(clause.written)
    words = content(clause.tokens)
    if _is_asked(tokens, clause):
        return words <= _TAG  # isn't it?
    return not words and not is_statement(clause.tokens)


def _is_aside(clause: Clause, tokens: tuple[Token, ...]) -> bool:
    """Return whether a clause stands in brackets."""
    return clause.start > 0 and tokens[clause.start - 1].text in _BRACKETS


def _names(clause: Clause) -> bool:
    """Return whether a clause may be another name of what stands before it, and not an answer."""
    return clause.is_chinese or any(token.has_content for token in clause.tokens)


def _changes(longer: Reading, place: Addition) -> bool:
    tokens = outline(longer).tokens
    stretch = tokens[place.start : place.end]
    if len(stretch) == 1 and is_manner(stretch[0]):
        return True
    is_last = not any(token.has_content for token in tokens[place.end :])
    if (is_last or place.start == 0) and begins_telling(stretch):
        return True
    mine = clauses(longer)
    if is_last:
        return is_participle(stretch) or (
            place.start <= mine[-1].start and _is_told(tokens, mine[-1])
        )
    first = mine[0]
    ends = tokens[first.end].text if first.end < len(tokens) else ""
    return (
        place.start == 0
        and first.end <= place.end
        and ends in _FULL_STOPS
        and _is_told(tokens, first)
    )


def _is_told(tokens: tuple[Token, ...], clause: Clause) -> bool:
    """Return whether a clause is a sentence of its own that tells to do something."""
    is_sentence = clause.opens and not _is_aside(clause, tokens) and not _is_asked(tokens, clause)
    return is_sentence and is_command(clause.tokens)


def _is_asked(tokens: tuple[Token, ...], clause: Clause) -> bool:
    """Return whether a question mark ends a clause."""
    return clause.end < len(tokens) and tokens[clause.end].text == "?"


def _shown(tokens: tuple[Token, ...]) -> str:
    return " ".join([token.text for token in tokens[:_SHOWN]])
