"""The layers in turn: exact, then other words, whose entry must still be there and be fresh."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from support.walk import (
    STREAM_WITH_USAGE,
    HandUpstream,
    Heard,
    completion,
    make_ask,
    make_exact,
    make_question,
)

from stepwell.core.entry import Entry, Phrasing, SourceValue
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import CacheKey, LayerName, Tier
from stepwell.core.outcome import Hit, Miss
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.lookups import MAX_LOST, Lookups
from stepwell.pipeline.renderings import Renderings
from stepwell.pipeline.respondent import Respondents
from stepwell.pipeline.trail import trail_of
from stepwell.policy.classes import GENERAL
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_phrasing
from stepwell.wire.controls import Directives

STORED = make_phrasing("how do I return shoes")
ASKED = make_phrasing("what is the way to return shoes")
MATCH = Match(make_key("stored"), STORED.text, 0.95)


@dataclass
class HandParaphrases:
    """Finds what the test says, in order, the last again and again."""

    found: Sequence[Match | NoMatch]
    asked: list[tuple[Phrasing, Terms]] = field(default_factory=list)
    forgotten: list[CacheKey] = field(default_factory=list)

    async def lookup(self, phrasing: Phrasing, terms: Terms) -> Match | NoMatch:
        self.asked.append((phrasing, terms))
        return self.found[min(len(self.asked), len(self.found)) - 1]

    def learn(self, entry: Entry) -> None:
        raise NotImplementedError

    def forget(self, key: CacheKey) -> None:
        self.forgotten.append(key)


@dataclass
class HandHints:
    """Notes what it hears."""

    heard: list[tuple[CacheKey, CacheKey, float]] = field(default_factory=list)

    def note(self, asked: CacheKey, near: CacheKey, similarity: float) -> None:
        self.heard.append((asked, near, similarity))


@dataclass
class Bench:
    """Lookups and their parts."""

    clock: HandClock
    exact: ExactLayer
    paraphrases: HandParaphrases
    hints: HandHints
    lookups: Lookups

    def keep(self, entry: Entry) -> None:
        """Put an entry where the exact layer finds it."""
        assert self.exact.keep(entry)


def make_bench(*found: Match | NoMatch) -> Bench:
    clock, events = HandClock(), Heard()
    exact = make_exact(clock, events)
    paraphrases, hints = HandParaphrases(found), HandHints()
    lookups = Lookups(
        exact, Renderings(max_bytes=100_000), clock=clock, paraphrases=paraphrases, hints=hints
    )
    return Bench(clock, exact, paraphrases, hints, lookups)


def stored_entry(clock: HandClock, **changes: object) -> Entry:
    entry = make_entry(
        "stored", body=completion(), created_at=clock.seconds, phrasing=STORED, ttl_seconds=60.0
    )
    return replace(entry, **changes)  # type: ignore[arg-type]


async def test_the_answer_to_other_words() -> None:
    """The exact layer misses; the entry behind the match is served, and the trail says both."""
    bench = make_bench(MATCH)
    entry = stored_entry(bench.clock)
    bench.keep(entry)
    found = await bench.lookups.find(make_question("asked", phrasing=ASKED))
    assert found == Hit(entry, LayerName.SEMANTIC, Tier.MEMORY, 0.95, ("exact: miss",))
    assert trail_of(found) == ("exact: miss", "semantic: hit in memory, 0.950 alike")


async def test_the_exact_layer_comes_first() -> None:
    """What it has is not looked for in other words."""
    bench = make_bench(MATCH)
    bench.keep(stored_entry(bench.clock))
    found = await bench.lookups.find(make_question("stored", phrasing=STORED))
    assert isinstance(found, Hit)
    assert found.layer is LayerName.EXACT
    assert bench.paraphrases.asked == []


async def test_a_question_without_words_to_change_is_not_looked_up() -> None:
    """Nor is one where there is no semantic layer."""
    bench = make_bench(MATCH)
    assert await bench.lookups.find(make_question("asked")) == Miss(LayerName.EXACT)
    assert bench.paraphrases.asked == []
    alone = Lookups(bench.exact, Renderings(max_bytes=1_000), clock=bench.clock)
    assert await alone.find(make_question("a", phrasing=ASKED)) == Miss(LayerName.EXACT)


@pytest.mark.parametrize(
    ("of_class", "of_caller", "expected"),
    [("general", None, "general"), ("general", "strict", "strict"), ("general", "faq", "general")],
)
async def test_callers_only_tighten(of_class: str, of_caller: str | None, expected: str) -> None:
    """The stricter of the class's level and the caller's counts."""
    bench = make_bench(NoMatch("nothing-near"))
    question = make_question(
        phrasing=ASKED,
        request_class=replace(GENERAL, level=of_class),  # type: ignore[arg-type]
        directives=Directives(level=of_caller, min_similarity=0.5),  # type: ignore[arg-type]
    )
    await bench.lookups.find(question)
    assert bench.paraphrases.asked == [(ASKED, Terms(expected, 0.5))]  # type: ignore[arg-type]


async def test_an_entry_that_is_gone_is_forgotten() -> None:
    """The next match is tried; at some point it is a miss."""
    bench = make_bench(Match(make_key("gone"), "gone", 0.99), MATCH)
    bench.keep(stored_entry(bench.clock))
    found = await bench.lookups.find(make_question("asked", phrasing=ASKED))
    assert isinstance(found, Hit)
    assert bench.paraphrases.forgotten == [make_key("gone")]
    endless = make_bench(MATCH)
    lost = await endless.lookups.find(make_question("asked", phrasing=ASKED))
    assert lost == Miss(LayerName.SEMANTIC, "what was found is gone", ("exact: miss",))
    assert len(endless.paraphrases.asked) == MAX_LOST


@pytest.mark.parametrize(
    "changes",
    [
        {"phrasing": None},
        {"phrasing": make_phrasing("how do I return books")},
        {"phrasing": make_phrasing(STORED.text, partition="another")},
    ],
)
async def test_an_entry_that_is_not_what_was_indexed(changes: dict[str, object]) -> None:
    """An index may be behind, or damaged: the entry itself says whose words it answers."""
    bench = make_bench(MATCH, NoMatch("nothing-near"))
    bench.keep(stored_entry(bench.clock, **changes))
    found = await bench.lookups.find(make_question("asked", phrasing=ASKED))
    assert isinstance(found, Miss)
    assert bench.paraphrases.forgotten == [MATCH.key]


async def test_an_entry_that_is_not_fresh_is_a_miss() -> None:
    """Expired, or made under another value of a source: never served to other words."""
    bench = make_bench(MATCH)
    bench.keep(stored_entry(bench.clock, sources=(SourceValue("faq", "v1"),)))
    question = make_question("asked", phrasing=ASKED, sources=(SourceValue("faq", "v2"),))
    moved = await bench.lookups.find(question)
    assert isinstance(moved, Miss)
    assert moved.detail == "0.950 alike, semantic: stale in memory, source-moved"
    limited = make_question("asked", phrasing=ASKED, directives=Directives(max_age_seconds=5))
    bench.clock.seconds += 10
    assert isinstance(await bench.lookups.find(limited), Miss)
    assert bench.paraphrases.forgotten == []


async def test_an_entry_that_cannot_be_written_in_the_form_asked_for() -> None:
    """A stream with usage, of an answer stored without."""
    bench = make_bench(MATCH)
    body = completion().replace(b'"usage"', b'"other"')
    bench.keep(stored_entry(bench.clock, answer=replace(make_entry().answer, body=body)))
    question = make_question("asked", phrasing=ASKED, shape=STREAM_WITH_USAGE)
    found = await bench.lookups.find(question)
    assert isinstance(found, Miss)
    assert "without the usage" in found.detail


async def test_a_near_question_is_a_hint() -> None:
    """For the prefix layer; the trail says why it was refused."""
    refused = NoMatch("number", "0.962 refused, number 15 != 50", make_key("near"), 0.962)
    bench = make_bench(refused)
    found = await bench.lookups.find(make_question("asked", phrasing=ASKED))
    assert trail_of(found) == ("exact: miss", "semantic: miss, 0.962 refused, number 15 != 50")
    assert bench.hints.heard == [(make_key("asked"), make_key("near"), 0.962)]


async def test_shadow_mode_serves_no_other_words() -> None:
    """What would have been served is handed on; the exact layer answers as ever."""
    bench = make_bench(MATCH)
    entry = stored_entry(bench.clock)
    bench.keep(entry)
    shadow = replace(GENERAL, shadow=True)
    found = await bench.lookups.find(make_question("asked", phrasing=ASKED, request_class=shadow))
    hit = Hit(entry, LayerName.SEMANTIC, Tier.MEMORY, 0.95, ("exact: miss",))
    assert found == Miss(LayerName.SEMANTIC, before=("exact: miss",), withheld=hit)
    assert trail_of(found) == ("exact: miss", "semantic: would hit, 0.950 alike (shadow)")
    exact = await bench.lookups.find(make_question("stored", phrasing=STORED, request_class=shadow))
    assert isinstance(exact, Hit)


async def test_whom_a_second_opinion_may_be_asked_of() -> None:
    """The request's own model server, if that is wanted and the request is known."""
    bench = make_bench(NoMatch("nothing-near"))
    question = make_question("asked", phrasing=ASKED)
    ask = make_ask(question, HandUpstream())
    respondents = Respondents(clock=bench.clock, events=Heard())
    asking = Lookups(
        bench.exact,
        Renderings(max_bytes=1_000),
        clock=bench.clock,
        paraphrases=bench.paraphrases,
        respondents=respondents,
    )
    await bench.lookups.find(question, ask)
    await asking.find(question)
    await asking.find(question, ask)
    whom = [terms.respondent for _, terms in bench.paraphrases.asked]
    assert whom == [None, None, respondents.of(ask)]
