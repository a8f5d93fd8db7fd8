"""What becomes of a judgement about a hit: the pair, the entry, the counts."""

from enum import StrEnum
from typing import Protocol

from stepwell.core.clock import Clock
from stepwell.core.entry import Selector
from stepwell.core.events import HitJudged
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, PairId
from stepwell.core.ports import EventSink, Judgements
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.hit_id import HitId

UNKNOWN_CLASS = "none"
"""Class of a hit whose entry has gone."""


class By(StrEnum):
    """Why a hit was judged."""

    PERSON = "person"
    """Somebody said so."""
    SAMPLE = "sample"
    """It was served, and drawn."""
    SHADOW = "shadow"
    """It would have been served."""


class DeniedPairs(Protocol):
    """Which pairs of questions do not share an answer; `stepwell.semantic.denials.Denials`."""

    def denies(self, pair: PairId) -> bool:
        """Return whether the pair was said to be wrong, and nobody has taken that back."""
        ...


class Feedback:
    """Takes judgements about answers that were given to other words.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        exact: ExactLayer,
        judgements: Judgements,
        denied: DeniedPairs,
        *,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Take judgements to the store behind ``exact``, which ``denied`` follows."""
        self._exact = exact
        self._judgements = judgements
        self._denied = denied
        self._clock = clock
        self._events = events

    async def give(self, hit: HitId, verdict: Verdict, *, delete: bool = False) -> bool:
        """Keep what a person says; every worker obeys when it returns, and after a restart.

        A wrong hit denies the pair in both directions, and narrows its entry to questions that
        are nearer than this one was. A right one takes an earlier denial of the pair back.

        Args:
            hit: Which hit.
            verdict: What is said of it.
            delete: Remove the entry too: its answer is wrong for any question.

        Returns:
            Whether the entry was still there. What is said of the pair counts in any case.

        Raises:
            StoreError: It could not be made known.
        """
        request_class = await self._class_of(hit.key)
        await self._keep(hit, verdict)
        if delete:
            await self._exact.invalidate(Selector(key=hit.key))
            await self._exact.catch_up()
        self._events.emit(HitJudged(verdict, By.PERSON, request_class))
        return request_class != UNKNOWN_CLASS

    async def note(self, hit: HitId, verdict: Verdict, by: By, request_class: str) -> None:
        """Keep what a judge says, as `give`, but that it takes nobody's denial back.

        Raises:
            StoreError: It could not be made known.
        """
        await self._exact.catch_up()
        if verdict is Verdict.WRONG or not self._denied.denies(hit.pair):
            await self._keep(hit, verdict)
        self._events.emit(HitJudged(verdict, by, request_class))

    async def _keep(self, hit: HitId, verdict: Verdict) -> None:
        now = self._clock.now()
        await self._judgements.judge(Judgement(hit.pair, hit.key, hit.similarity, verdict, now))
        await self._exact.catch_up()

    async def _class_of(self, key: CacheKey) -> str:
        found = await self._exact.lookup(key)
        return UNKNOWN_CLASS if found is None else found[0].request_class
