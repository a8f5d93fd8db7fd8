"""Kinds of answer."""

from enum import Enum, auto


class Asks(Enum):
    """A kind of answer."""

    WAY = auto()
    """How something is done."""
    MANNER = auto()
    """How something happens."""
    CAUSE = auto()
    """Why."""
    TIME = auto()
    """When."""
    PLACE = auto()
    """Where."""
    PERSON = auto()
    """Who."""
    AMOUNT = auto()
    """How many, how much, how old."""
    PRICE = auto()
    """What it costs."""
    DISTANCE = auto()
    """How far."""
    DURATION = auto()
    """How long it takes or lasts."""
    FREQUENCY = auto()
    """How often."""
    WHETHER = auto()
    """Yes or no."""
    ABILITY = auto()
    """Whether one can; the answer says how, or that one cannot."""
    MEANING = auto()
    """What something is."""
    SUMMARY = auto()
    TRANSLATION = auto()
    LIST = auto()
    """Examples, names, recommendations."""
    WRITING = auto()
    """A poem, an essay, a program."""
    EXPLANATION = auto()
    DEED = auto()
    """That something is done: an alarm set, a song played."""
    NAME = auto()
    """What something is called."""
    KIND = auto()
    """Of what kind something is."""
    PURPOSE = auto()
    """What something is for."""
    WHICH = auto()
    """Which of them: what forms, which trains."""
    ALL = auto()
    """All there are, one by one."""
