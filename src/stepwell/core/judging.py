"""Judges: whether two answers say the same, and whether two questions have one answer."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that an answer asks for."""

    name: str
    arguments: str
    """JSON is canonical: the same arguments are the same string."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer says, whatever the form it was sent in."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    """In the order of the answer."""


class Respondent(Protocol):
    """A language model that a judge may ask, for one request or for all.

    Hashable; equal are those of whom it is all the same which one is asked.
    """

    async def ask(self, instructions: str, text: str) -> str:
        """Return what it replies, in a few words.

        Args:
            instructions: What it is to do; nobody else has written in them.
            text: What it is to do it with; may hold what callers and models wrote.

        Raises:
            UpstreamError: It did not reply.
        """
        ...


class AnswerJudge(Protocol):
    """Says whether two answers to one question are the same.

    Safe for many tasks on one event loop. May take as long as it likes: its caller bounds that.
    """

    async def same(
        self, question: str, one: Said, other: Said, respondent: Respondent
    ) -> bool | None:
        """Return whether either answer could be given in place of the other.

        ``None`` where it cannot tell: only a clear no may be ``False``, as it has consequences.

        Args:
            question: The words that were asked.
            one: The stored answer.
            other: The answer that was made for the question.
            respondent: A model to ask, if it needs one.

        Raises:
            UpstreamError, EmbeddingError: What it needs failed.
        """
        ...


class SecondOpinion(Protocol):
    """Says of two questions, which all else holds to be the same, whether they have one answer.

    Asked before an answer is served, so what it takes is added to a hit, or to a miss. Safe for
    many tasks on one event loop.
    """

    async def one_answer(
        self, asked: str, stored: str, respondent: Respondent | None
    ) -> bool | None:
        """Return whether the answer to ``stored`` answers ``asked``; ``None``: cannot tell.

        Args:
            asked: The question.
            stored: The question whose answer was found.
            respondent: A model to ask, if it needs one and there is one.

        Raises:
            UpstreamError, EmbeddingError: What it needs failed.
        """
        ...
