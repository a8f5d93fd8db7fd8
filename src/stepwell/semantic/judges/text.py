"""The judge that compares letters. Costs nothing, and can seldom tell."""

import re
import unicodedata

from stepwell.core.judging import Respondent, Said
from stepwell.semantic.judges.calls import same_calls

SHORT_CHARACTERS = 32
"""So short are answers from a closed set, such as *yes*, a label, a number."""

_WORD = re.compile(r"\w+")


class TextJudge:
    """Says yes to equal texts, no to short ones without a word in common, else nothing.

    For answers from a closed set: labels, choices, *yes* and *no*. Prose is seldom equal.
    """

    async def same(
        self,
        question: str,  # noqa: ARG002  (the port's signature)
        one: Said,
        other: Said,
        respondent: Respondent,  # noqa: ARG002
    ) -> bool | None:
        """As `AnswerJudge.same`. Linear in the answers; some microseconds."""
        calls = same_calls(one, other)
        if not calls:
            return calls
        first, second = _plain(one.text), _plain(other.text)
        if first == second:
            return True
        short = max(len(first), len(second)) <= SHORT_CHARACTERS
        apart = set(_WORD.findall(first)).isdisjoint(_WORD.findall(second))
        return False if short and apart and first and second else None


def _plain(text: str) -> str:
    """Return ``text`` without what does not matter: case, white space, a full stop at the end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".。!")
