"""A difference between two texts that look alike."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What differs. The value is the refusal's name in trails, metrics and reports."""

    LANGUAGE = "language"
    """Another language, or one in which nobody here knows how to say no."""
    LITERAL = "literal"
    """Quoted or fenced text, which must match to the letter."""
    NUMBER = "number"
    """Numbers, quantities with their units, money, versions."""
    DATE = "date"
    """Dates, weekdays, times of day, periods."""
    NEGATION = "negation"
    """One text denies what the other states."""
    ANTONYM = "antonym"
    """Words that mean the opposite, or the other direction."""
    MODALITY = "modality"
    """Another modality: can, must, should; did, will, might have."""
    ENTITY = "entity"
    """Names, identifiers, products, languages."""
    ORDER = "order"
    """The same words in other roles: from A to B, from B to A."""
    SCOPE = "scope"
    """Which, how many of them: all, some, only, except."""
    INSTRUCTION = "instruction"
    """How to answer, or in what manner, said by one text alone."""
    QUESTION = "question"
    """Another kind of question: how, why, when, who."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the answer to one text must not be given to the other."""

    kind: Kind
    asked: str
    """What stands in the text that was asked; empty if nothing corresponds."""
    stored: str
    """What stands in the text whose answer was found; empty if nothing corresponds."""

    def __str__(self) -> str:
        return f"{self.kind} {self.asked or 'none'} != {self.stored or 'none'}"
