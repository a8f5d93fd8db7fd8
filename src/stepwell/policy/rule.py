"""A rule of the classifier."""

import re
from dataclasses import KW_ONLY, dataclass

HEAD_CHARACTERS = 256
"""Rules see this much of a text. Who wants something says so at the start."""

ANYTHING = re.compile("")


@dataclass(frozen=True, slots=True)
class Rule:
    """A sign that a text belongs to a class.

    Patterns see the lower-cased head of a text, and every gap in them has a length, so that
    neither a long nor a hostile text makes them slow.
    """

    request_class: str
    why: str
    """What was seen, in constant words: it goes into logs and headers, a caller's text does not."""
    opening: re.Pattern[str] = ANYTHING
    """Must match at the start."""
    sign: re.Pattern[str] = ANYTHING
    """Must be found somewhere."""
    words: frozenset[str] = frozenset()
    """The patterns are only tried if one of these words is in the head; empty: always."""
    _: KW_ONLY
    sees_characters: int = HEAD_CHARACTERS
    """How much of the head the patterns see."""
    max_characters: int = HEAD_CHARACTERS
    """The rule holds for texts at most this long. A long text that opens like a plain question
    brings its own context along. `HEAD_CHARACTERS`: for all."""

    def holds(self, head: str, words: frozenset[str], characters: int) -> bool:
        """Return whether the rule holds for a text of that many ``characters``."""
        if characters > self.max_characters != HEAD_CHARACTERS:
            return False
        if self.words and self.words.isdisjoint(words):
            return False
        end = self.sees_characters
        return bool(self.opening.match(head, 0, end) and self.sign.search(head, 0, end))
