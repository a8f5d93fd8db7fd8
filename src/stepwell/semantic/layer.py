"""The semantic layer: a question in other words -> the key of an entry that answers it.

It finds keys, never answers: whether the entry is still there, and fresh, is for the store to say.
So its index may be behind, or lose points, and no wrong answer comes of it.
"""

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry, Phrasing
from stepwell.core.errors import EmbeddingError, IndexUnavailable
from stepwell.core.events import Degraded, SemanticLookup
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import CacheKey, Partition
from stepwell.core.points import Candidate, Group, Point
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Embedder, Unfit, Vector
from stepwell.policy.compatibility import TEMPERATURE_TOLERANCE, is_compatible
from stepwell.semantic.acceptance.verdict import Acceptance, Pair, Refused
from stepwell.semantic.comparison import Comparison
from stepwell.semantic.denials import Denials
from stepwell.semantic.index.port import Index
from stepwell.semantic.opinions import Opinions
from stepwell.semantic.shared import Shared
from stepwell.semantic.valve.reading import Reading, read
from stepwell.semantic.valve.reordered import is_reordered

MAX_CANDIDATES = 8
"""Neighbours looked at. The first that is accepted is served; beyond a few, none would be."""

MAX_CHARACTERS_ON_LOOP = 500
"""Of a question. What the valve finds in a longer one may take it milliseconds."""

MAX_LEARNING = 1_000
"""Entries whose words wait to be embedded; what comes beyond is found again by `follow`."""

MAX_READINGS = 500
"""Texts whose readings are kept, with what the valve found in them."""

MAX_KEPT_CHARACTERS = 1_000
"""Readings of longer texts are not kept: few of them would fill the memory of many questions."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What may differ, and from where on it is worth a word."""

    temperature: float = TEMPERATURE_TOLERANCE
    """How much the temperatures of two requests may differ."""
    reuse_similarity: float = 1.0
    """From this cosine on, a refused candidate is handed on as near."""


class SemanticLayer:
    """Finds questions that have the same answer, and learns new ones.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(  # noqa: PLR0913  (the parts of the layer)
        self,
        embedder: Embedder,
        index: Index,
        acceptance: Acceptance,
        denials: Denials,
        *,
        clock: Clock,
        events: EventSink,
        tolerances: Tolerances,
        comparison: Comparison | None = None,
        opinions: Opinions | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            embedder: Bounds its own time; what it takes is what a lookup can add to a miss.
            index: Where the points are. One on a server bounds its own time, as the embedder.
            acceptance: Decides about candidates.
            denials: What people have said.
            clock: The time.
            events: Hears how lookups went, and of failures.
            tolerances: What may differ.
            comparison: Looks closer at what all else accepts, if the embedder can.
            opinions: Have the last word on what all else accepts, if they are wanted.
        """
        self._embedder = embedder
        self._index = index
        self._acceptance = acceptance
        self._denials = denials
        self._clock = clock
        self._events = events
        self._tolerances = tolerances
        self._comparison = comparison
        self._opinions = opinions
        self._walks = Shared[tuple[Phrasing, Terms], Match | NoMatch]()
        self._learning: set[asyncio.Task[None]] = set()
        self._kept = functools.lru_cache(maxsize=MAX_READINGS)(read)

    async def lookup(self, phrasing: Phrasing, terms: Terms) -> Match | NoMatch:
        """Return a question whose answer may be given, or why there is none.

        Cost: one embedding, one search, and some 30 us for each near candidate, 150 us if
        it was not read before; for a match, the comparison and the second opinion, if they are
        wanted. Of who looks for the same at the same time, one pays that, and the others 5 us.
        """
        started = self._clock.monotonic()
        walk = functools.partial(self._find, phrasing, terms, started)
        found = await self._walks.of((phrasing, terms), walk)
        if isinstance(found, Match):
            found = self._unless_denied(phrasing, found)
        outcome = "match" if isinstance(found, Match) else found.outcome
        seconds = self._clock.monotonic() - started
        self._events.emit(SemanticLookup(outcome, terms.level, found.similarity, seconds))
        return found

    async def _find(self, phrasing: Phrasing, terms: Terms, started: float) -> Match | NoMatch:
        vector = await self._embed(phrasing.text)
        if vector is None:
            return NoMatch("embedder", "embedder failed")
        if isinstance(vector, Unfit):
            return NoMatch(vector, f"not looked up, {vector}")
        candidates = await self._search(phrasing.partition, vector)
        if candidates is None:
            return NoMatch("index", "index failed")
        if not candidates:
            return NoMatch("nothing-near")
        chosen = await self._chosen(phrasing, terms, candidates)
        if isinstance(chosen, NoMatch):
            return chosen
        doubt = await self._doubt(phrasing, terms, chosen, started)
        return chosen if doubt is None else self._no_match(doubt, chosen)

    def _unless_denied(self, phrasing: Phrasing, match: Match) -> Match | NoMatch:
        """Return ``match`` unless somebody said meanwhile that it is wrong."""
        refused = self._denied(phrasing, match)
        return match if refused is None else self._no_match(refused, match)

    async def _doubt(
        self, phrasing: Phrasing, terms: Terms, match: Match, started: float
    ) -> Refused | None:
        """Return what those have against a match who cost too much to be asked of every one."""
        if self._comparison is not None and not is_reordered(
            self._read(phrasing.text), self._read(match.text)
        ):
            doubt = await self._comparison.doubt(phrasing.text, match, terms.level, started)
            if doubt is not None:
                return doubt
        if self._opinions is None:
            return None
        return await self._opinions.doubt(phrasing, match.text, terms.respondent)

    async def _search(self, partition: Partition, vector: Vector) -> Sequence[Candidate] | None:
        """Return the nearest points; ``None`` if the index fails."""
        try:
            return await self._index.search(partition, vector, MAX_CANDIDATES, self._clock.now())
        except IndexUnavailable as error:
            self._events.emit(Degraded("semantic.index", str(error)))
            return None

    async def _chosen(
        self, phrasing: Phrasing, terms: Terms, candidates: Sequence[Candidate]
    ) -> Match | NoMatch:
        """Return what `_choose` does; of long texts, on a thread.

        What it reads of judgements changes on the loop meanwhile, a dictionary's entry at a time.
        """
        texts = (phrasing.text, *(candidate.text for candidate in candidates))
        if max(map(len, texts)) <= MAX_CHARACTERS_ON_LOOP:
            return self._choose(phrasing, terms, candidates)
        return await asyncio.to_thread(self._choose, phrasing, terms, candidates)

    def _choose(
        self, phrasing: Phrasing, terms: Terms, candidates: Sequence[Candidate]
    ) -> Match | NoMatch:
        nearest = candidates[0]
        too_far = functools.partial(
            self._acceptance.too_far, level=terms.level, min_similarity=terms.min_similarity
        )
        refused = too_far(nearest.similarity)
        if refused is not None:
            return self._no_match(refused, nearest)
        asked = self._read(phrasing.text)
        refusals = []
        for candidate in candidates:
            refused = too_far(candidate.similarity) or self._refusal(
                phrasing, asked, terms, candidate
            )
            if refused is None:
                return Match(candidate.key, candidate.text, candidate.similarity)
            refusals.append(refused)
        return self._no_match(refusals[0], nearest)

    def _no_match(self, refused: Refused, candidate: Candidate | Match) -> NoMatch:
        near = candidate.similarity >= self._tolerances.reuse_similarity
        return NoMatch(
            refused.by,
            f"{candidate.similarity:.3f} refused, {refused.detail}",
            candidate.key if near else None,
            candidate.similarity,
        )

    def _refusal(
        self, phrasing: Phrasing, asked: Reading, terms: Terms, candidate: Candidate
    ) -> Refused | None:
        """Return why ``candidate`` must not answer; ``None`` if nothing speaks against it."""
        denied = self._denied(phrasing, candidate)
        if denied is not None:
            return denied
        if not is_compatible(
            phrasing.temperature, candidate.temperature, self._tolerances.temperature
        ):
            return Refused("temperature", f"made at temperature {candidate.temperature}")
        pair = Pair(candidate.key, asked, self._read(candidate.text), candidate.similarity)
        verdict = self._acceptance.judge(pair, terms.level, terms.min_similarity)
        return verdict if isinstance(verdict, Refused) else None

    def _denied(self, phrasing: Phrasing, found: Candidate | Match) -> Refused | None:
        denied = self._denials.forbids(phrasing.partition, phrasing.text, found.text)
        if denied or found.similarity <= self._denials.floor(found.key):
            return Refused("denied", "was said to be wrong here")
        return None

    def _read(self, text: str) -> Reading:
        """Return the reading of ``text``, the same one as long as it is kept."""
        return self._kept(text) if len(text) <= MAX_KEPT_CHARACTERS else read(text)

    def learn(self, entry: Entry) -> None:
        """Make ``entry`` findable by its words, soon: at once if they were just looked up."""
        if entry.phrasing is None or len(self._learning) >= MAX_LEARNING:
            return
        task = asyncio.create_task(self._learn(entry, entry.phrasing))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def learn_all(self, entries: Sequence[Entry]) -> None:
        """Make ``entries`` findable, and return when they are.

        Raises:
            EmbeddingError: Some are not; they are tried again if they are given again.
            IndexUnavailable: The same, of the index.
        """
        for entry in entries:
            if entry.phrasing is None:
                continue
            vector = await self._vector(entry.phrasing.text)
            if not isinstance(vector, Unfit):
                await self._index.add(_point_of(entry, entry.phrasing), vector)

    def forget(self, key: CacheKey) -> None:
        """Drop what was found by its words and is not there any more."""
        self._index.remove(key)

    async def aclose(self) -> None:
        """Stop what was started behind answers."""
        for task in list(self._learning):
            task.cancel()
        await asyncio.gather(*self._learning, return_exceptions=True)

    async def _learn(self, entry: Entry, phrasing: Phrasing) -> None:
        vector = await self._embed(phrasing.text)
        if vector is None or isinstance(vector, Unfit):
            return
        try:
            await self._index.add(_point_of(entry, phrasing), vector)
        except IndexUnavailable as error:
            self._events.emit(Degraded("semantic.index", str(error)))

    async def _embed(self, text: str) -> Vector | Unfit | None:
        """Return the vector of ``text``, why it has none, or ``None`` if the embedder fails."""
        try:
            return await self._vector(text)
        except EmbeddingError as error:
            self._events.emit(Degraded("semantic.embedder", str(error)))
            return None

    async def _vector(self, text: str) -> Vector | Unfit:
        embeddings = await self._embedder.embed([text])
        unfit = embeddings.unfit[0]
        vector: Vector = embeddings.vectors[0]
        return vector if unfit is None else unfit


def _point_of(entry: Entry, phrasing: Phrasing) -> Point:
    return Point(
        partition=phrasing.partition,
        key=entry.key,
        text=phrasing.text,
        temperature=phrasing.temperature,
        expires_at=entry.expires_at,
        position=entry.as_of,
        group=Group(entry.namespace, entry.model, entry.request_class),
        tags=entry.tags,
    )
