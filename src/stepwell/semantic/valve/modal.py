"""What a question asks of a deed: whether it may, must or should be done; whether it was."""

from dataclasses import dataclass
from enum import Enum, auto


class Force(Enum):
    """How free one is to do what is asked about."""

    MAY = auto()
    """It is possible, or allowed."""
    MUST = auto()
    """There is no way around it."""
    NEED = auto()
    """It is needed: by a law, or for a purpose."""
    SHOULD = auto()
    """It is advisable."""


class Tense(Enum):
    """When what is asked about happens."""

    DID = auto()
    """It happened: did, 了."""
    HAS = auto()
    """It has happened, and may be so still."""
    WAS = auto()
    """It was so once and need not be so still: was, 过."""
    BEFORE = auto()
    """A moment ago."""
    IS = auto()
    """It is so now."""
    WILL = auto()
    """It is going to happen."""
    MIGHT = auto()
    """It may happen, or might have."""


class Asking(Enum):
    """How the main clauses of a text ask."""

    NOTHING = auto()
    WHETHER = auto()
    """For yes or no."""
    WHICH = auto()
    """For what, who, when."""
    CAUSE = auto()


@dataclass(frozen=True, slots=True)
class Modality:
    """What the main clauses of a text ask."""

    asking: Asking
    forces: frozenset[Force]
    tenses: frozenset[Tense]


NONE = Modality(Asking.NOTHING, frozenset(), frozenset())
