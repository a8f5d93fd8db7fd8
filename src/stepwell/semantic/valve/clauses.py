"""A text in clauses: at full stops, commas, dashes, brackets and new lines."""

from typing import NamedTuple

from stepwell.semantic.valve.english import pieces
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import HAN, LATIN, SYMBOL, Reading

_ENDS = frozenset(".?!;:,-()[]。、…—~*|")
_ENDS_SENTENCE = _ENDS - frozenset(",、)]")


class Clause(NamedTuple):
    """A clause, without the signs around it."""

    tokens: tuple[Token, ...]
    start: int
    """Place of its first token in the outline."""
    opens: bool
    """Whether it begins a sentence."""

    @property
    def end(self) -> int:
        """Place behind its last token in the outline."""
        return self.start + len(self.tokens)

    @property
    def is_chinese(self) -> bool:
        """Whether it has a Chinese word."""
        return any(token.script is HAN for token in self.tokens)

    @property
    def written(self) -> str:
        """Its Chinese without blanks."""
        return "".join([token.text for token in self.tokens])


def are_several(reading: Reading) -> bool:
    """Return whether a text may have more than one clause; quicker than looking for them."""
    return not _ENDS.isdisjoint(outline(reading).texts[:-1]) or "\n" in reading.prose


def clauses(reading: Reading) -> tuple[Clause, ...]:
    """Return the clauses of a text, found once."""
    return reading.fact(_clauses)


def _clauses(reading: Reading) -> tuple[Clause, ...]:
    tokens, found = outline(reading).tokens, []
    start = at = behind = 0
    opens = True
    for word in reading.words:
        is_sign = word.script is SYMBOL and word.text in _ENDS
        is_new_line = "\n" in reading.prose[behind : word.start]
        if is_sign or is_new_line:
            if at > start:
                found.append(Clause(tokens[start:at], start, opens))
                opens = False
            opens = opens or is_new_line or word.text in _ENDS_SENTENCE
            start = at + is_sign
        at += len(pieces(word.text)) if word.script is LATIN else 1
        behind = word.end
    if at > start:
        found.append(Clause(tokens[start:at], start, opens))
    return tuple(found)
