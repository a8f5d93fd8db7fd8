"""Second opinions: shared, remembered for a while, and had in time or not at all."""

from collections import OrderedDict
from enum import StrEnum
from functools import partial

from stepwell.core.clock import Clock
from stepwell.core.entry import Phrasing
from stepwell.core.events import Degraded
from stepwell.core.judging import Respondent, SecondOpinion
from stepwell.core.names import PairId
from stepwell.core.ports import EventSink
from stepwell.embedding.patience import within
from stepwell.keys.pair import pair_of
from stepwell.policy.allowance import Allowance
from stepwell.semantic.acceptance.verdict import Refused
from stepwell.semantic.shared import Shared

OPINION = "opinion"
"""Outcome of a lookup whose match a second opinion did not confirm."""

UNASKED = "opinion-over-budget"
"""Outcome of a lookup whose match nobody was asked about, as too many were asked about before."""

REMEMBERED_PAIRS = 4096
"""Some 200 bytes each."""

REMEMBERED_SECONDS = 3600.0
"""The words of a pair stay the same; a model behind its name may not. So long lives an answer, too,
unless its class says otherwise."""


class _Told(StrEnum):
    """What became of asking about a pair."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
    FAILED = "failed"
    LATE = "late"
    OVER_BUDGET = "over semantic.judge.max_per_minute"


class Opinions:
    """Asks for second opinions, and is in doubt unless a clear yes comes in time.

    Who asks about the same pair on the same account at the same time shares one asking. A yes and a
    no are remembered, by digest; what was unsure, late or failed is asked about again.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        opinion: SecondOpinion,
        *,
        seconds: float,
        max_per_minute: int,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Know of no pair.

        Args:
            opinion: Who is asked.
            seconds: How long each of those who ask waits at most.
            max_per_minute: About so many pairs it is asked in a minute at most.
            clock: The time.
            events: Hears of failures.
        """
        self._opinion = opinion
        self._seconds = seconds
        self._allowance = Allowance(max_per_minute)
        self._clock = clock
        self._events = events
        self._asking = Shared[tuple[PairId, Respondent | None], _Told]()
        self._remembered: OrderedDict[PairId, tuple[_Told, float]] = OrderedDict()

    async def doubt(
        self, asked: Phrasing, stored: str, respondent: Respondent | None
    ) -> Refused | None:
        """Return why the answer to ``stored`` may not be given; ``None`` if it may. Never raises.

        Costs some 5 us for what is remembered, and for the same words.
        """
        if asked.text == stored:
            return None
        pair = pair_of(asked.partition, asked.text, stored)
        told = self._recall(pair)
        if told is None:
            ask = partial(self._ask, pair, asked.text, stored, respondent)
            try:
                told = await within(self._seconds, self._asking.of((pair, respondent), ask))
            except TimeoutError:
                told = _Told.LATE
        match told:
            case _Told.YES:
                return None
            case _Told.OVER_BUDGET:
                return Refused(UNASKED, f"second opinion: {told}")
            case _:
                return Refused(OPINION, f"second opinion: {told}")

    async def _ask(
        self, pair: PairId, asked: str, stored: str, respondent: Respondent | None
    ) -> _Told:
        costs = respondent is not None
        if costs and not self._allowance.take(self._clock.monotonic()):
            return _Told.OVER_BUDGET
        try:
            told = await self._opinion.one_answer(asked, stored, respondent)
        except Exception as error:  # noqa: BLE001  (a judge of any kind; without it, it is a miss)
            self._events.emit(Degraded("semantic.opinion", str(error) or type(error).__name__))
            return _Told.FAILED
        if told is None:
            return _Told.UNSURE
        clear = _Told.YES if told else _Told.NO
        self._remember(pair, clear)
        return clear

    def _recall(self, pair: PairId) -> _Told | None:
        found = self._remembered.get(pair)
        if found is None:
            return None
        told, until = found
        return told if self._clock.monotonic() < until else None

    def _remember(self, pair: PairId, told: _Told) -> None:
        self._remembered[pair] = told, self._clock.monotonic() + REMEMBERED_SECONDS
        self._remembered.move_to_end(pair)
        if len(self._remembered) > REMEMBERED_PAIRS:
            self._remembered.popitem(last=False)
