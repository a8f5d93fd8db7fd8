"""Asks the layers for an answer, from the cheapest to the dearest."""

from dataclasses import replace

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import LayerName, Level, Namespace, Tier
from stepwell.core.outcome import Hit, Miss, Stale
from stepwell.core.ports import Paraphrases, PrefixHints
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.renderings import Renderings, Unrenderable
from stepwell.pipeline.respondent import Respondents
from stepwell.pipeline.trail import say, trail_of
from stepwell.policy.classes import stricter
from stepwell.policy.freshness import Fresh, judge

MAX_LOST = 4
"""Matches whose entry is gone that are forgotten before a lookup gives up."""


class Lookups:
    """The layers that answer, and what is judged of what they find.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        exact: ExactLayer,
        renderings: Renderings,
        *,
        clock: Clock,
        paraphrases: Paraphrases | None = None,
        hints: PrefixHints | None = None,
        respondents: Respondents | None = None,
    ) -> None:
        """Put the layers together.

        Args:
            exact: The exact layer.
            renderings: Turns entries into bodies.
            clock: The time.
            paraphrases: The semantic layer, if there is one.
            hints: Hears of questions that are near but not near enough.
            respondents: Which model may be asked for a second opinion, if any may.
        """
        self._exact = exact
        self._renderings = renderings
        self._clock = clock
        self._paraphrases = paraphrases
        self._hints = hints
        self._respondents = respondents

    def peek(self, question: Question, now: float) -> Hit | Stale | None:
        """Return what this worker's memory has under the question's key, without waiting.

        The hot path: a few microseconds.
        """
        if question.key is None or question.namespace is None:
            return None
        entry = self._exact.peek(question.key)
        if entry is None:
            return None
        return self._judge(question, question.namespace, entry, Tier.MEMORY, now)

    async def find(self, question: Question, ask: Ask | None = None) -> Hit | Stale | Miss:
        """Return the answer of the first layer that has one.

        Args:
            question: What is asked.
            ask: How to put it to its model server, which may then be asked for an opinion.
        """
        found = await self._find_exact(question)
        if not isinstance(found, Miss) or self._paraphrases is None:
            return found
        reworded = await self._find_reworded(question, self._paraphrases, found, ask)
        if question.request_class.shadow and isinstance(reworded, Hit):
            return Miss(LayerName.SEMANTIC, before=reworded.before, withheld=reworded)
        return reworded

    async def _find_exact(self, question: Question) -> Hit | Stale | Miss:
        if question.key is None or question.namespace is None:
            return Miss(LayerName.EXACT)
        found = await self._exact.lookup(question.key)
        if found is None:
            return Miss(LayerName.EXACT)
        entry, tier = found
        if not self._can_render(entry, question):
            return Miss(LayerName.EXACT, "stored without the usage asked for")
        return self._judge(question, question.namespace, entry, tier, self._clock.now())

    async def _find_reworded(
        self,
        question: Question,
        paraphrases: Paraphrases,
        missed: Miss,
        ask: Ask | None,
    ) -> Hit | Miss:
        """Return the answer to the question in other words. One that is not fresh is none."""
        if question.phrasing is None or question.namespace is None:
            return missed
        before = trail_of(missed)
        level: Level = stricter(question.request_class.level, question.directives.level)
        respondent = self._respondents.of(ask) if self._respondents and ask else None
        terms = Terms(level, question.directives.min_similarity, respondent)
        for _ in range(MAX_LOST):
            found = await paraphrases.lookup(question.phrasing, terms)
            if isinstance(found, NoMatch):
                return self._missed(question, found, before)
            hit = await self._fetch(question, question.namespace, found)
            if isinstance(hit, Hit):
                return replace(hit, before=before)
            if hit is not None:
                detail = f"{found.similarity:.3f} alike, {say(hit)}"
                return Miss(LayerName.SEMANTIC, detail, before)
            paraphrases.forget(found.key)
        return Miss(LayerName.SEMANTIC, "what was found is gone", before)

    async def _fetch(
        self, question: Question, namespace: Namespace, match: Match
    ) -> Hit | Stale | Miss | None:
        """Return the entry of a match, judged; ``None`` if it is gone, or has other words now."""
        found = await self._exact.lookup(match.key)
        if found is None:
            return None
        entry, tier = found
        stored, asked = entry.phrasing, question.phrasing
        if stored is None or asked is None:
            return None
        if (stored.partition, stored.text) != (asked.partition, match.text):
            return None
        if not self._can_render(entry, question):
            return Miss(LayerName.SEMANTIC, "stored without the usage asked for")
        judged = self._judge(question, namespace, entry, tier, self._clock.now())
        return (
            replace(judged, layer=LayerName.SEMANTIC)
            if isinstance(judged, Stale)
            else Hit(entry, LayerName.SEMANTIC, tier, match.similarity)
        )

    def _missed(self, question: Question, found: NoMatch, before: tuple[str, ...]) -> Miss:
        if found.near is not None and self._hints is not None and question.key is not None:
            self._hints.note(question.key, found.near, found.similarity)
        return Miss(LayerName.SEMANTIC, found.detail, before)

    def _can_render(self, entry: Entry, question: Question) -> bool:
        try:
            self._renderings.of(entry, question.shape)
        except Unrenderable:
            return False
        return True

    def _judge(
        self, question: Question, namespace: Namespace, entry: Entry, tier: Tier, now: float
    ) -> Hit | Stale:
        verdict = judge(
            entry,
            now,
            question.directives,
            question.request_class,
            lambda name: self._exact.source_to_judge_by(namespace, name),
            question.sources,
        )
        if isinstance(verdict, Fresh):
            return Hit(entry, LayerName.EXACT, tier)
        return Stale(entry, LayerName.EXACT, tier, verdict)
