"""The semantic layer over a hand-made embedder and a plain index."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pytest
from support.judges import HandOpinion
from support.study import HandComparer
from support.walk import Heard, settle

from stepwell.core.entry import Entry
from stepwell.core.errors import EmbeddingError, IndexUnavailable, UpstreamBroken
from stepwell.core.events import Degraded, SemanticLookup
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import CacheKey, Level, PairId
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Embeddings, Unfit, Vector
from stepwell.keys.pair import pair_of
from stepwell.semantic import layer
from stepwell.semantic.acceptance.boundary import Boundary
from stepwell.semantic.acceptance.calibration import Calibration, Compared
from stepwell.semantic.acceptance.threshold import Threshold
from stepwell.semantic.acceptance.verdict import Acceptance
from stepwell.semantic.acceptance.verified import Verified
from stepwell.semantic.comparison import Comparison
from stepwell.semantic.denials import Denials
from stepwell.semantic.layer import SemanticLayer, Tolerances
from stepwell.semantic.opinions import Opinions
from stepwell.semantic.valve.reading import Reading, read
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_judgement, make_key, make_phrasing

LEVELS = Calibration({"strict": 0.99, "general": 0.9, "faq": 0.8}, 0.7)
GENERAL = Terms("general")


@dataclass
class HandEmbedder:
    """Places each text at an angle, in degrees, that the test gives."""

    angles: dict[str, float]
    unfit: dict[str, Unfit] = field(default_factory=dict)
    failing: bool = False
    asked: list[str] = field(default_factory=list)
    model_id: str = "hand"
    dimensions: int = 2

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return what the test said."""
        self.asked += texts
        await asyncio.sleep(0)
        if self.failing:
            raise EmbeddingError("out of order")
        angles = np.radians([self.angles.get(text, 0.0) for text in texts])
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        return Embeddings(vectors, tuple(self.unfit.get(text) for text in texts))

    async def aclose(self) -> None:
        """Do nothing."""


class PlainIndex:
    """Compares with every point."""

    def __init__(self) -> None:
        self.points: dict[CacheKey, tuple[Point, Vector]] = {}
        self.failing = False
        self.searches = 0

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        self._fail()
        self.searches += 1
        found = [
            Candidate(
                point.key,
                point.text,
                point.temperature,
                point.expires_at,
                point.position,
                float(np.clip(stored @ vector, 0, 1)),
            )
            for point, stored in self.points.values()
            if point.partition == partition and point.expires_at > now
        ]
        return sorted(found, key=lambda candidate: -candidate.similarity)[:k]

    async def add(self, point: Point, vector: Vector) -> None:
        self._fail()
        self.points[point.key] = (point, vector)

    def remove(self, key: CacheKey) -> None:
        self.points.pop(key, None)

    def _fail(self) -> None:
        if self.failing:
            raise IndexUnavailable("nobody answers")


@dataclass(frozen=True)
class Judged:
    """Knows the boundaries that the test gives."""

    boundaries: dict[CacheKey, Boundary]

    def boundary(self, key: CacheKey) -> Boundary | None:
        return self.boundaries.get(key)


@dataclass
class Bench:
    """A layer and its parts."""

    embedder: HandEmbedder
    index: PlainIndex
    denials: Denials
    events: Heard
    layer: SemanticLayer

    async def store(self, text: str, **entry: float) -> Entry:
        """Learn an entry, named by its text."""
        temperature = entry.pop("temperature", 1.0)
        stored = make_entry(
            text,
            phrasing=make_phrasing(text, temperature=temperature),
            **entry,  # type: ignore[arg-type]
        )
        await self.layer.learn_all([stored])
        return stored


def make_comparison(comparer: HandComparer, clock: HandClock, events: Heard) -> Comparison:
    levels = Compared(dict.fromkeys(get_args(Level), 0.6), LEVELS.min_similarity)
    return Comparison(comparer, levels, budget_seconds=1.0, clock=clock, events=events)


def make_opinions(opinion: HandOpinion, clock: HandClock, events: Heard) -> Opinions:
    return Opinions(opinion, seconds=0.05, max_per_minute=10, clock=clock, events=events)


def make_bench(
    angles: dict[str, float],
    opinion: HandOpinion | None = None,
    acceptance: Acceptance | None = None,
    comparer: HandComparer | None = None,
) -> Bench:
    embedder, index, denials, events = HandEmbedder(angles), PlainIndex(), Denials(), Heard()
    clock = HandClock()
    layer = SemanticLayer(
        embedder,
        index,
        acceptance or Threshold(LEVELS),
        denials,
        clock=clock,
        events=events,
        tolerances=Tolerances(reuse_similarity=0.7),
        comparison=None if comparer is None else make_comparison(comparer, clock, events),
        opinions=None if opinion is None else make_opinions(opinion, clock, events),
    )
    return Bench(embedder, index, denials, events, layer)


STORED = "how do I return shoes"
ASKED = "what is the way to return shoes"


async def test_other_words_match() -> None:
    """Near enough for the level, and nothing speaks against it."""
    bench = make_bench({STORED: 0, ASKED: 20})
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert isinstance(found, Match)
    assert (found.key, found.text) == (make_key(STORED), STORED)
    assert found.similarity == pytest.approx(0.9397, abs=1e-4)
    (told,) = bench.events.of(SemanticLookup)
    assert isinstance(told, SemanticLookup)
    assert (told.outcome, told.level) == ("match", "general")


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        (Terms("faq"), True),
        (Terms("general"), False),
        (Terms("strict"), False),
        (Terms("faq", min_similarity=0.87), False),
        (Terms("faq", min_similarity=0.1), True),
    ],
)
async def test_levels_and_the_callers_own_bound(terms: Terms, matches: bool) -> None:  # noqa: FBT001
    """The caller's bound tightens; a loose one changes nothing. Cosine of 30 degrees: 0.866."""
    bench = make_bench({STORED: 0, ASKED: 30})
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing(ASKED), terms)
    assert isinstance(found, Match) == matches


async def test_a_near_question_is_handed_on() -> None:
    """Below the level but above the reuse level: its KV blocks may begin alike."""
    bench = make_bench({STORED: 0, ASKED: 40, "far": 80})
    await bench.store(STORED)
    near = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert isinstance(near, NoMatch)
    assert (near.outcome, near.near) == ("similarity", make_key(STORED))
    assert near.detail == "0.766 refused, below 0.900"
    far = await bench.layer.lookup(make_phrasing("far"), GENERAL)
    assert isinstance(far, NoMatch)
    assert far.near is None


async def test_partitions_are_never_crossed() -> None:
    """The very same words elsewhere are no match."""
    bench = make_bench({})
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing(STORED, partition="other"), GENERAL)
    assert found == NoMatch("nothing-near")


@pytest.mark.parametrize(
    ("stored", "asked", "matches"),
    [
        (0.7, 0.8, True),
        (0.8, 0.7, True),
        (0.7, 0.81, False),
        (None, None, True),
        (None, 1.0, False),
    ],
)
async def test_temperature(stored: float | None, asked: float | None, matches: bool) -> None:  # noqa: FBT001
    """Within a tenth; an unknown default equals itself only."""
    bench = make_bench({})
    await bench.store(STORED, temperature=stored)  # type: ignore[arg-type]
    found = await bench.layer.lookup(make_phrasing(ASKED, temperature=asked), GENERAL)
    assert isinstance(found, Match) == matches


async def test_a_refused_neighbour_does_not_hide_the_next() -> None:
    """The nearest is another question; the one behind it is the same."""
    bench = make_bench({STORED: 10, "how do I return 2 shoes": 1, ASKED: 0})
    await bench.store("how do I return 2 shoes", temperature=0.0)
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert isinstance(found, Match)
    assert found.text == STORED


async def test_a_neighbour_that_is_too_far_does_not_hide_one_that_is_sure() -> None:
    """The nearest lacks what the level demands; the one behind it was judged to be right."""
    sure = "how can shoes be returned"
    judged = Judged({})
    bench = make_bench({STORED: 31, sure: 32, ASKED: 0}, acceptance=Verified(LEVELS, judged))
    await bench.store(STORED)
    entry = await bench.store(sure)
    assert isinstance(await bench.layer.lookup(make_phrasing(ASKED), GENERAL), NoMatch)
    judged.boundaries[entry.key] = Boundary(0.7, 60.0, 0.005)
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert isinstance(found, Match)
    assert found.text == sure


async def test_what_was_said_to_be_wrong() -> None:
    """A denied pair never matches again."""
    bench = make_bench({})
    entry = await bench.store(STORED)
    phrasing = make_phrasing(ASKED)
    bench.denials.note(make_judgement(pair_of(phrasing.partition, ASKED, STORED), entry.key, 0.5))
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert isinstance(found, NoMatch)
    assert found.outcome == "denied"


async def test_an_entry_that_failed_answers_only_what_is_nearer() -> None:
    """A wrong hit narrows the entry it came from."""
    bench = make_bench({STORED: 0, ASKED: 10, "nearer": 5})
    entry = await bench.store(STORED)
    bench.denials.note(make_judgement(PairId(bytes(16)), entry.key, 0.99))
    assert isinstance(await bench.layer.lookup(make_phrasing(ASKED), GENERAL), NoMatch)
    assert isinstance(await bench.layer.lookup(make_phrasing("nearer"), GENERAL), Match)


@pytest.mark.parametrize("reason", list(Unfit))
async def test_an_unfit_text_is_neither_looked_up_nor_learned(reason: Unfit) -> None:
    """Its vector means nothing."""
    bench = make_bench({})
    bench.embedder.unfit["strange"] = reason
    await bench.store("strange")
    assert bench.index.points == {}
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing("strange"), GENERAL)
    assert found == NoMatch(reason, f"not looked up, {reason}")


async def test_an_embedder_that_fails_is_a_miss() -> None:
    """And counted; nothing is raised."""
    bench = make_bench({})
    await bench.store(STORED)
    bench.embedder.failing = True
    found = await bench.layer.lookup(make_phrasing(STORED), GENERAL)
    assert found == NoMatch("embedder", "embedder failed")
    bench.layer.learn(make_entry("x", phrasing=make_phrasing("x")))
    await asyncio.sleep(0.01)
    assert bench.events.of(Degraded) == [Degraded("semantic.embedder", "out of order")] * 2
    with pytest.raises(EmbeddingError):
        await bench.store("another")


async def test_an_index_that_fails_is_a_miss() -> None:
    """And counted, as an embedder; who gives what was missing hears of it."""
    bench = make_bench({})
    await bench.store(STORED)
    bench.index.failing = True
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert found == NoMatch("index", "index failed")
    bench.layer.learn(make_entry("x", phrasing=make_phrasing("x")))
    await asyncio.sleep(0.01)
    assert bench.events.of(Degraded) == [Degraded("semantic.index", "nobody answers")] * 2
    with pytest.raises(IndexUnavailable):
        await bench.store("another")


async def test_what_is_learned_is_found_soon() -> None:
    """Behind the answer; closing stops what is under way."""
    bench = make_bench({})
    entry = make_entry(STORED, phrasing=make_phrasing(STORED))
    bench.layer.learn(entry)
    bench.layer.learn(make_entry("no words"))
    await asyncio.sleep(0.01)
    assert list(bench.index.points) == [entry.key]
    bench.layer.learn(make_entry("late", phrasing=make_phrasing("late")))
    await bench.layer.aclose()
    assert list(bench.index.points) == [entry.key]


async def test_expired_and_forgotten_points_do_not_match() -> None:
    """At once."""
    bench = make_bench({})
    await bench.store(STORED, created_at=0.0, ttl_seconds=1.0)
    assert await bench.layer.lookup(make_phrasing(STORED), GENERAL) == NoMatch("nothing-near")
    kept = await bench.store(ASKED)
    assert isinstance(await bench.layer.lookup(make_phrasing(STORED), GENERAL), Match)
    bench.layer.forget(kept.key)
    assert await bench.layer.lookup(make_phrasing(STORED), GENERAL) == NoMatch("nothing-near")


async def test_a_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is near to many questions is not read anew for each; of long texts nothing is kept."""
    told: list[str] = []

    def read_and_tell(text: str) -> Reading:
        told.append(text)
        return read(text)

    monkeypatch.setattr(layer, "read", read_and_tell)
    bench = make_bench({})
    long = "how do I return shoes " * 50
    for text in (STORED, long):
        await bench.store(text)
    for _ in range(3):
        await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
        await bench.layer.lookup(make_phrasing(long), GENERAL)
    bench.embedder.angles["too far"] = 90
    await bench.store("too far")
    await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert "too far" not in told
    assert len(long) > layer.MAX_KEPT_CHARACTERS
    assert told.count(STORED) == told.count(ASKED) == 1
    assert told.count(long) > 1


@pytest.mark.parametrize(
    ("opinion", "doubt"),
    [
        (HandOpinion(told=True), None),
        (HandOpinion(told=False), "no"),
        (HandOpinion(told=None), "unsure"),
        (HandOpinion(told=True, held=True), "late"),
        (HandOpinion(told=UpstreamBroken("gone", upstream="u")), "failed"),
        (HandOpinion(told=RuntimeError()), "failed"),
    ],
)
async def test_a_second_opinion(opinion: HandOpinion, doubt: str | None) -> None:
    """Only a clear yes in time lets a match through; else it is near, and a miss."""
    bench = make_bench({STORED: 0, ASKED: 20}, opinion)
    await bench.store(STORED)
    found = await bench.layer.lookup(make_phrasing(ASKED), GENERAL)
    assert opinion.asked == [(ASKED, STORED)]
    (told,) = bench.events.of(SemanticLookup)
    assert isinstance(told, SemanticLookup)
    assert len(bench.events.of(Degraded)) == (doubt == "failed")
    if doubt is None:
        assert isinstance(found, Match)
        assert told.outcome == "match"
    else:
        detail = f"0.940 refused, second opinion: {doubt}"
        assert found == NoMatch("opinion", detail, make_key(STORED), found.similarity)
        assert told.outcome == "opinion"


async def test_what_is_refused_needs_no_second_opinion() -> None:
    """It is asked last, and of the best only."""
    opinion = HandOpinion(told=False)
    bench = make_bench(
        {STORED: 0, "near": 1, ASKED: 40, "other": 3},
        opinion,
    )
    await bench.store(STORED)
    await bench.store("near")
    assert isinstance(await bench.layer.lookup(make_phrasing(ASKED), GENERAL), NoMatch)
    assert opinion.asked == []
    assert isinstance(await bench.layer.lookup(make_phrasing("other"), GENERAL), NoMatch)
    assert opinion.asked == [("other", "near")]


async def test_the_best_candidate_is_compared() -> None:
    """Before the second opinion, which is not asked of what looks different from nearby."""
    opinion = HandOpinion(told=True)
    comparer = HandComparer({STORED: 0.7, "close": 0.3})
    bench = make_bench(
        {STORED: 0, ASKED: 20, "close": 91, "closer": 92, "far": 180},
        opinion,
        comparer=comparer,
    )
    await bench.store(STORED)
    await bench.store("close")
    assert isinstance(await bench.layer.lookup(make_phrasing(ASKED), GENERAL), Match)
    found = await bench.layer.lookup(make_phrasing("closer"), GENERAL)
    assert isinstance(found, NoMatch)
    assert (found.outcome, found.near) == ("comparison", make_key("close"))
    await bench.layer.lookup(make_phrasing("far"), GENERAL)
    assert comparer.asked == [(ASKED, STORED), ("closer", "close")]
    assert opinion.asked == [(ASKED, STORED)]


async def test_long_texts_are_not_read_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two is long."""
    places: list[int] = []

    def read_and_tell(text: str) -> Reading:
        places.append(threading.get_ident())
        return read(text)

    monkeypatch.setattr(layer, "read", read_and_tell)
    long = f"{STORED} {'and boots ' * 60}"
    for stored, asked, on_loop in (
        (STORED, ASKED, True),
        (long, ASKED, False),
        (ASKED, long, False),
    ):
        bench = make_bench({})
        await bench.store(stored)
        places.clear()
        await bench.layer.lookup(make_phrasing(asked), GENERAL)
        assert {place == threading.get_ident() for place in places} == {on_loop}


async def test_who_looks_for_the_same_at_the_same_time_shares_one_walk() -> None:
    """One embedding, search, comparison and opinion; each lookup is told of, with its own time."""
    opinion, comparer = HandOpinion(told=True, held=True), HandComparer({STORED: 0.7})
    bench = make_bench({STORED: 0, ASKED: 20}, opinion, comparer=comparer)
    await bench.store(STORED)
    bench.embedder.asked.clear()
    looking = [
        asyncio.create_task(bench.layer.lookup(make_phrasing(ASKED), GENERAL)) for _ in range(50)
    ]
    await settle()
    looking.pop(0).cancel()
    await settle()
    opinion.say.set()
    found = await asyncio.gather(*looking)
    assert isinstance(found[0], Match)
    assert found == [found[0]] * 49
    assert bench.embedder.asked == [ASKED]
    assert bench.index.searches == len(comparer.asked) == len(opinion.asked) == 1
    assert len(bench.events.of(SemanticLookup)) == 49


async def test_who_looks_for_something_else_walks_alone() -> None:
    """Other words, terms, temperatures or partitions are another lookup."""
    bench = make_bench({STORED: 0, ASKED: 30, "how can I return shoes": 10})
    await bench.store(STORED)
    found = await asyncio.gather(
        bench.layer.lookup(make_phrasing(ASKED), GENERAL),
        bench.layer.lookup(make_phrasing(ASKED), Terms("faq")),
        bench.layer.lookup(make_phrasing(ASKED), Terms("faq", min_similarity=0.87)),
        bench.layer.lookup(make_phrasing(ASKED, temperature=0.0), Terms("faq")),
        bench.layer.lookup(make_phrasing(ASKED, partition="other"), Terms("faq")),
        bench.layer.lookup(make_phrasing("how can I return shoes"), GENERAL),
    )
    assert [isinstance(one, Match) for one in found] == [False, True, False, False, False, True]


async def test_what_is_said_to_be_wrong_meanwhile_does_not_match() -> None:
    """Whoever has said so is not served it by a walk that began before."""
    opinion = HandOpinion(told=True, held=True)
    bench = make_bench({STORED: 0, ASKED: 20}, opinion)
    entry, phrasing = await bench.store(STORED), make_phrasing(ASKED)
    before = asyncio.create_task(bench.layer.lookup(phrasing, GENERAL))
    await settle()
    bench.denials.note(make_judgement(pair_of(phrasing.partition, ASKED, STORED), entry.key, 0.5))
    after = asyncio.create_task(bench.layer.lookup(phrasing, GENERAL))
    await settle()
    opinion.say.set()
    for found in await asyncio.gather(before, after):
        assert isinstance(found, NoMatch)
        assert found.outcome == "denied"
