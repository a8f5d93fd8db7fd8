"""A second opinion that is had in time, or not at all."""

import asyncio

from stepwell.core.events import Degraded
from stepwell.core.judging import Respondent, SecondOpinion
from stepwell.core.ports import EventSink

OPINION = "opinion"
"""Outcome of a lookup whose match a second opinion did not confirm."""


class HurriedOpinion:
    """Asks for a second opinion, and is in doubt unless a clear yes comes in time."""

    def __init__(self, opinion: SecondOpinion, *, seconds: float, events: EventSink) -> None:
        """Ask ``opinion``, for at most so many seconds; ``events`` hears of failures."""
        self._opinion = opinion
        self._seconds = seconds
        self._events = events

    async def doubt(self, asked: str, stored: str, respondent: Respondent | None) -> str | None:
        """Return why the answer to ``stored`` may not be given to ``asked``; ``None`` if it may.

        Never raises.
        """
        try:
            async with asyncio.timeout(self._seconds):
                told = await self._opinion.one_answer(asked, stored, respondent)
        except TimeoutError:
            return "late"
        except Exception as error:  # noqa: BLE001  (a judge of any kind; without it, it is a miss)
            self._events.emit(Degraded("semantic.opinion", str(error) or type(error).__name__))
            return "failed"
        match told:
            case True:
                return None
            case False:
                return "no"
            case _:
                return "unsure"
