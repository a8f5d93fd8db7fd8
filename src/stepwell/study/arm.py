"""One cache that a stream is played to: an exact layer's table and a real semantic layer."""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from stepwell.core.entry import Phrasing
from stepwell.core.events import Event
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import CacheKey, LayerName, Level, Namespace, Partition, Position
from stepwell.core.points import Candidate, Group, Point
from stepwell.core.ports import EvictionPolicy
from stepwell.core.vectors import Embedder, Vector
from stepwell.keys.pair import pair_of
from stepwell.policy.compatibility import TEMPERATURE_TOLERANCE
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.acceptance.verdict import Acceptance
from stepwell.semantic.acceptance.verified import Boundaries
from stepwell.semantic.comparison import Comparison
from stepwell.semantic.denials import Denials
from stepwell.semantic.evidence import Evidence
from stepwell.semantic.layer import SemanticLayer, Tolerances
from stepwell.study.texts import Block, Neighbours, Place, Texts

NEVER_CACHED = "not cached"
"""Why a question is not served that nobody may store or answer."""

_NOBODY = Group(Namespace(bytes(16)), "", "")
_START = Position(0)
_NO_VECTOR: Vector = np.zeros(0, np.float32)
_NOMINAL_BYTES = 1_000
"""Eviction policies count entries."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the stream, as a cache sees it."""

    number: int
    """Its place in the stream."""
    key: CacheKey
    phrasing: Phrasing | None
    """``None``: no other words may have the same answer."""
    level: Level
    """How alike other words must be."""
    at: float
    """When it was asked, in seconds."""
    ttl_seconds: float
    """How long its answer is fresh; 0: it is not stored."""
    answer: str = ""
    """What the right answer is called, where that is known: two questions may share one."""
    layers: frozenset[LayerName] = frozenset((LayerName.EXACT, LayerName.SEMANTIC))
    """Who may answer as its class has it; counts only in `as_ruled`."""

    def as_ruled(self) -> "Question":
        """Return the question as a cache sees it that keeps to the request classes."""
        return replace(
            self,
            phrasing=self.phrasing if LayerName.SEMANTIC in self.layers else None,
            ttl_seconds=self.ttl_seconds if self.layers else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Served:
    """The stored answer to ``stored`` was given."""

    layer: LayerName
    stored: Question
    similarity: float


@dataclass(frozen=True, slots=True)
class NotServed:
    """The model server is asked."""

    why: str
    """As `NoMatch.outcome`."""
    nearest: Question | None = None
    similarity: float = 0.0
    """Of the nearest stored question."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """What the semantic layers of several arms share."""

    decide_by: Callable[[Boundaries], Acceptance]
    """Makes what decides about candidates, from what judged hits say of their entries."""
    calibration: Calibration
    """What the levels mean, and what is believed of an entry of which no hit was judged."""
    texts: Texts
    """Those of the stream."""
    comparison: Comparison | None = None
    """Looks closer at what all else accepts, if the embedder can."""
    temperature_tolerance: float = TEMPERATURE_TOLERANCE

    def afresh(self) -> "Semantics":
        """Return the same without any texts."""
        return replace(self, texts=Texts(self.texts.embedder))


class StreamClock:
    """The time of the stream; what passes while it is read is the machine's."""

    def __init__(self) -> None:
        """Begin at the epoch."""
        self.moment = 0.0

    def now(self) -> float:
        """Return the time of the question that is asked."""
        return self.moment

    def monotonic(self) -> float:
        """Return the machine's time."""
        return time.perf_counter()


class Arm:
    """A cache at one level. Ask it the questions of a block in order; not thread-safe."""

    def __init__(
        self,
        semantics: Semantics | None,
        *,
        level: Level | None = None,
        policy: EvictionPolicy | None = None,
        max_entries: int = 0,
    ) -> None:
        """Have nothing stored.

        Args:
            semantics: What the semantic layer is made of; ``None``: there is none.
            level: For all questions, instead of their own.
            policy: What leaves when there are more than ``max_entries``; ``None``: nothing does.
            max_entries: The bound.
        """
        self._level = level
        self._policy = policy
        self._max_entries = max_entries
        self._clock = StreamClock()
        self._semantic = None if semantics is None else _Semantic(semantics, self._clock)
        self._stored: dict[CacheKey, Question] = {}
        self._answers: Counter[tuple[bytes, str]] = Counter()
        """How many stored questions have an answer, by partition."""
        self._expiries: list[tuple[float, int, CacheKey]] = []
        self._compared: frozenset[Partition] = frozenset()
        self._layer: SemanticLayer | None = None
        self.evicted = 0
        """Entries that left because there were too many."""

    def __len__(self) -> int:
        """Return how many answers are stored."""
        return len(self._stored)

    def has_answer(self, question: Question) -> bool:
        """Return whether the right answer to ``question`` is stored where it may be found."""
        return (_partition(question), question.answer) in self._answers

    def begin(self, block: Block) -> None:
        """Take what the next questions need."""
        self._compared = block.compared
        if self._semantic is not None:
            self._layer = self._semantic.layer_over(block, block)

    async def time_lookup(self, question: Question, embedder: Embedder) -> float:
        """Return the seconds a lookup takes that is prepared by nothing. Stores nothing.

        The words are new by a number behind them: embedders remember the last ones.
        """
        if question.phrasing is None or self._semantic is None:
            return 0.0
        layer = self._semantic.layer_over(embedder, self._semantic.texts)
        terms = Terms(self._level or question.level)
        text = f"{question.phrasing.text} {question.number}"
        phrasing = replace(question.phrasing, text=text)
        started = self._clock.monotonic()
        await layer.lookup(phrasing, terms)
        return self._clock.monotonic() - started

    async def ask(self, question: Question) -> Served | NotServed:
        """Answer from what is stored, or store the answer that the model server would give."""
        self.advance(question.at)
        outcome = await self._find(question)
        if isinstance(outcome, NotServed):
            self._store(question)
        elif self._policy is not None:
            self._policy.on_hit(outcome.stored.key)
        return outcome

    def advance(self, moment: float) -> None:
        """Let the time be ``moment``, or later; what has expired by then is gone."""
        self._clock.moment = max(self._clock.moment, moment)
        self._expire(self._clock.moment)

    def judge(self, question: Question, served: Served, verdict: Verdict) -> None:
        """Take what is said of a semantic hit by one who asked the model server once more.

        The answer that came is stored, as a gateway stores it.
        """
        phrasing, stored = question.phrasing, served.stored
        if self._semantic is None or phrasing is None or stored.phrasing is None:
            return
        pair = pair_of(phrasing.partition, phrasing.text, stored.phrasing.text)
        now = self._clock.now()
        self._semantic.note(Judgement(pair, stored.key, served.similarity, verdict, now))
        self._store(question)

    async def _find(self, question: Question) -> Served | NotServed:
        if question.ttl_seconds <= 0:
            return NotServed(NEVER_CACHED)
        stored = self._stored.get(question.key)
        if stored is not None:
            return Served(LayerName.EXACT, stored, 1.0)
        if self._layer is None:
            return NotServed("exact layer only")
        phrasing = question.phrasing
        if phrasing is None:
            return NotServed("no words")
        if phrasing.partition not in self._compared:
            return NotServed("nothing-near")
        terms = Terms(self._level or question.level)
        found = await self._layer.lookup(phrasing, terms)
        return self._told(found)

    def _told(self, found: Match | NoMatch) -> Served | NotServed:
        if isinstance(found, Match):
            return Served(LayerName.SEMANTIC, self._stored[found.key], found.similarity)
        nearest = None if found.near is None else self._stored.get(found.near)
        return NotServed(str(found.outcome), nearest, found.similarity)

    def _store(self, question: Question) -> None:
        if question.ttl_seconds <= 0:
            return
        self._stored[question.key] = question
        self._answers[_partition(question), question.answer] += 1
        if question.phrasing is not None and self._semantic is not None:
            self._semantic.index.hold(_point(question, question.phrasing))
        expires_at = question.at + question.ttl_seconds
        heapq.heappush(self._expiries, (expires_at, question.number, question.key))
        if self._policy is not None:
            self._policy.on_put(question.key, _NOMINAL_BYTES)
            while len(self._stored) > self._max_entries:
                self._remove(self._policy.victim())
                self.evicted += 1

    def _expire(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            _, number, key = heapq.heappop(self._expiries)
            stored = self._stored.get(key)
            # Another may have been stored under the key since, or it may have been evicted.
            if stored is not None and stored.number == number:
                self._remove(key)
                if self._policy is not None:
                    self._policy.on_delete(key)

    def _remove(self, key: CacheKey) -> None:
        question = self._stored.pop(key)
        place = (_partition(question), question.answer)
        self._answers[place] -= 1
        if not self._answers[place]:
            del self._answers[place]
        if self._semantic is not None:
            self._semantic.index.remove(key)


class _Nearby(Protocol):
    """Knows what is near a vector."""

    def neighbours(self, partition: Partition, vector: Vector) -> Neighbours | None:
        """Return the texts of ``partition`` by falling similarity; ``None``: there are none."""
        ...


class _HeldIndex:
    """The `Index` of one arm: which texts it has; how near they are the block knows."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._held: dict[Place, dict[CacheKey, Point]] = {}
        self._points: dict[CacheKey, Point] = {}
        self.nearby: _Nearby | None = None

    async def search(
        self,
        partition: bytes,
        vector: Vector,
        k: int,
        now: float,  # noqa: ARG002  (what has expired was taken away)
    ) -> Sequence[Candidate]:
        partition = Partition(partition)
        near = None if self.nearby is None else self.nearby.neighbours(partition, vector)
        if near is None:
            return ()
        found: list[Candidate] = []
        for row, similarity in zip(near.rows, near.similarities, strict=True):
            held = self._held.get((partition, near.texts[row]))
            if held is not None:
                found += [_candidate(point, similarity) for point in held.values()]
                if len(found) >= k:
                    break
        return found[:k]

    async def add(self, point: Point, vector: Vector) -> None:  # noqa: ARG002  (the texts have it)
        self.hold(point)

    def hold(self, point: Point) -> None:
        place = (Partition(point.partition), point.text)
        if place not in self._held:
            self._texts.hold(place)
        self._held.setdefault(place, {})[point.key] = point
        self._points[point.key] = point

    def remove(self, key: CacheKey) -> None:
        point = self._points.pop(key, None)
        if point is None:
            return
        place = (Partition(point.partition), point.text)
        held = self._held[place]
        del held[key]
        if not held:
            del self._held[place]
            self._texts.release(place)


class _Semantic:
    """The semantic layer of one arm: which texts are stored, and what was judged."""

    def __init__(self, semantics: Semantics, clock: StreamClock) -> None:
        evidence = Evidence(semantics.calibration.prior)
        self.texts = semantics.texts
        self.index = _HeldIndex(semantics.texts)
        self._denials = Denials()
        self._learning = (self._denials, evidence)
        self._acceptance = semantics.decide_by(evidence)
        self._comparison = semantics.comparison
        self._temperature_tolerance = semantics.temperature_tolerance
        self._clock = clock

    def layer_over(self, embedder: Embedder, nearby: _Nearby) -> SemanticLayer:
        """Return a layer that embeds by ``embedder``, and is told by ``nearby`` what is near."""
        self.index.nearby = nearby
        return SemanticLayer(
            embedder,
            self.index,
            self._acceptance,
            self._denials,
            clock=self._clock,
            events=_Deaf(),
            # Whatever is nearest is named: a person may want to look at it.
            tolerances=Tolerances(self._temperature_tolerance, reuse_similarity=0.0),
            comparison=self._comparison,
        )

    def note(self, judgement: Judgement) -> None:
        """Take a judgement, as a gateway's workers do."""
        for learner in self._learning:
            learner.note(judgement)


def _partition(question: Question) -> bytes:
    """Return within what an answer may be shared: without words, the very question."""
    return question.key if question.phrasing is None else question.phrasing.partition


def _point(question: Question, phrasing: Phrasing) -> Point:
    return Point(
        partition=phrasing.partition,
        key=question.key,
        text=phrasing.text,
        temperature=phrasing.temperature,
        expires_at=question.at + question.ttl_seconds,
        position=_START,
        group=_NOBODY,
    )


def _candidate(point: Point, similarity: float) -> Candidate:
    return Candidate(
        point.key, point.text, point.temperature, point.expires_at, point.position, similarity
    )


class _Deaf:
    """An `EventSink`: what happened is told by the outcome."""

    def emit(self, event: Event) -> None:
        pass
