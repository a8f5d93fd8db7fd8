"""What becomes of a judgement about a hit: the pair, the entry, the counts."""

from stepwell.core.clock import Clock
from stepwell.core.entry import Selector
from stepwell.core.events import HitJudged
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.ports import EventSink, Judgements
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.hit_id import HitId


class Feedback:
    """Takes judgements about answers that were given to other words.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self, exact: ExactLayer, judgements: Judgements, *, clock: Clock, events: EventSink
    ) -> None:
        """Take judgements to the store behind ``exact``."""
        self._exact = exact
        self._judgements = judgements
        self._clock = clock
        self._events = events

    async def give(self, hit: HitId, verdict: Verdict, *, delete: bool = False) -> None:
        """Keep a judgement; every worker obeys when it returns, and after a restart.

        A wrong hit denies the pair in both directions, and narrows its entry to questions that
        are nearer than this one was. A right one takes an earlier denial of the pair back.

        Args:
            hit: Which hit.
            verdict: What is said of it.
            delete: Remove the entry too: its answer is wrong for any question.

        Raises:
            StoreError: It could not be made known.
        """
        now = self._clock.now()
        judgement = Judgement(hit.pair, hit.key, hit.similarity, verdict, now)
        await self._judgements.judge(judgement)
        if delete:
            await self._exact.invalidate(Selector(key=hit.key))
        await self._exact.catch_up()
        self._events.emit(HitJudged(verdict, "person"))
