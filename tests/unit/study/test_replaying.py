"""Traces, played to caches and judged by labels."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from support.study import LEVELS, RULES, AngleEmbedder, placed, semantics

from stepwell.core.errors import ConfigError
from stepwell.core.judgement import Verdict
from stepwell.core.names import LayerName
from stepwell.semantic.acceptance.verified import Verified
from stepwell.semantic.evidence import MAX_OBSERVATIONS
from stepwell.stores.eviction.lru import Lru
from stepwell.study import replaying
from stepwell.study.arm import Arm, NotServed, Served
from stepwell.study.replaying import (
    EXACT_ONLY,
    Bounds,
    Replay,
    Replayer,
    as_json,
    as_text,
)
from stepwell.study.rules import AS_CONFIGURED
from stepwell.study.trace import drawn_by_zipf, questions


def row(text: str, answer: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "answer_key": answer, **more}


async def play(
    *rows: dict[str, Any],
    ttl: float = float("inf"),
    bounds: Bounds | None = None,
    sample_share: float = 0.0,
) -> Replay:
    replayer = Replayer(semantics(), bounds=bounds, sample_share=sample_share)
    await replayer.play(questions(placed(rows), RULES, ttl), lambda _: None)
    return await replayer.result(None)


async def test_hits_are_counted_by_layer_and_judged() -> None:
    found = await play(
        row("a@0", "A"),  # stored
        row("a@0", "A"),  # exact
        row("again@20", "A"),  # other words: general and faq
        row("other@1", "B"),  # a wrong hit at every level
        row("far@80", "C"),  # stored
    )
    general, strict, exact = (found.tallies[name] for name in ("general", "strict", EXACT_ONLY))
    assert (general.exact_hits, general.semantic_hits, general.wrong_semantic) == (1, 2, 1)
    assert (strict.exact_hits, strict.semantic_hits, strict.wrong_semantic) == (1, 1, 1)
    assert (exact.exact_hits, exact.semantic_hits, exact.requests) == (1, 0, 5)
    told = as_json(found)["caches"]["general"]
    assert told["hit_rate"] == 0.6
    assert told["wrong_per_10k"] == 2_000
    assert told["precision"] == pytest.approx(2 / 3)
    # Two requests had their answer stored, three had none, and one of those got a wrong one.
    assert (told["reusable"], told["recall_of_reusable"]) == (2, 1.0)
    assert told["false_hit_rate"] == pytest.approx(1 / 3)


async def test_classes_count_only_where_it_is_said() -> None:
    """Levels take every question; as configured, a class that is never cached is not."""
    found = await play(
        row("Who is the CEO of Apple? @0", "A"),
        row("Who is Apple's CEO? @1", "A"),
        row("Who is Apple's CEO? @1", "A"),
        row("How do I return shoes? @40", "B"),
        row("How can I return shoes? @41", "B"),
    )
    told = {
        name: (tally.exact_hits, tally.semantic_hits, tally.refused["not cached"])
        for name, tally in found.tallies.items()
    }
    assert told["faq"] == (0, 3, 0)
    assert told[EXACT_ONLY] == (1, 0, 0)
    assert told[AS_CONFIGURED] == (0, 1, 3)
    assert "never cached" in as_text(found)


async def test_what_was_answered_is_not_stored() -> None:
    """A hit stores nothing: the third is compared with the first, not with the second."""
    found = await play(row("a@0", "A"), row("b@20", "A"), row("c@40", "A"))
    assert (found.tallies["general"].semantic_hits, found.tallies["faq"].semantic_hits) == (1, 1)
    assert found.tallies["strict"].refused["similarity"] == 2


async def test_models_and_system_prompts_keep_apart() -> None:
    found = await play(
        row("a@0", "A"),
        row("b@0", "A", model="other"),
        row("c@0", "A", system="Be brief."),
        row("d@0", "A", system="Be brief."),
    )
    assert found.tallies["general"].semantic_hits == 1
    assert found.tallies["general"].reusable == 1


async def test_answers_expire() -> None:
    rows = [row("a@0", "A", t_ms=0), row("b@0", "A", t_ms=9_999), row("c@0", "A", t_ms=10_000)]
    found = await play(*rows, ttl=10.0)
    assert found.tallies["general"].semantic_hits == 1
    assert found.tallies["general"].reusable == 1


async def test_a_bounded_cache_forgets() -> None:
    rows = [row(f"{n}@{n * 30}", str(n)) for n in range(4)] + [row("0@0", "0"), row("3@90", "3")]
    found = await play(*rows, bounds=Bounds(2, Lru))
    assert found.evicted["general"] == 3
    assert found.tallies["general"].exact_hits == 1


async def test_contradicting_labels_are_told_apart() -> None:
    """The same question with another answer is no fault of any layer."""
    found = await play(row("a@0", "A"), row("a@0", "B"))
    assert found.tallies["general"].wrong_exact == 1
    assert found.tallies["general"].wrong_semantic == 0


async def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(f"{n % 17}@{(n * 53) % 170}", str(n % 5)) for n in range(200)]
    whole = as_json(await play(*rows))["caches"]
    monkeypatch.setattr(replaying, "QUESTIONS_AT_ONCE", 3)
    assert as_json(await play(*rows))["caches"] == whole


async def test_judged_hits_teach_a_cache() -> None:
    """A wrong one is not repeated, nor one that is farther; its own answer is stored."""
    rows = [row("a@0", "A"), row("b@10", "B"), row("b@10", "B"), row("c@11", "A"), row("d@3", "A")]
    untaught = await play(*rows)
    assert (untaught.tallies["faq"].wrong_semantic, untaught.tallies["faq"].exact_hits) == (2, 0)
    taught = await play(*rows, sample_share=1.0)
    faq, exact = taught.tallies["faq"], taught.tallies[EXACT_ONLY]
    # Of b: b itself is stored then; c lies nearer to b than to a, and is wrong of b; d is right.
    assert (faq.semantic_hits, faq.wrong_semantic, faq.exact_hits, faq.judged) == (3, 2, 1, 3)
    assert exact.judged == 0
    assert as_json(taught)["caches"]["faq"]["judged_hits"] == 3


@pytest.mark.parametrize(("judgements", "kind"), [(0, NotServed), (MAX_OBSERVATIONS, Served)])
async def test_judged_hits_move_an_entrys_boundary(
    judgements: int, kind: type[Served | NotServed]
) -> None:
    """After many that were right, what is farther than the level demands is served as well."""
    told = semantics()
    learning = replace(told, decide_by=lambda known: Verified(LEVELS, known, checks=()))
    rows = [row("a@0", "A"), row("b@27", "A"), *(row(f"c{n}@30", "A") for n in range(judgements))]
    stored, asked, *judged = questions(placed(rows), RULES, 1e9)
    arm = Arm(learning, level="general")
    arm.begin(await told.texts.prepare([q.phrasing for q in (stored, asked) if q.phrasing]))
    await arm.ask(stored)
    hit = Served(LayerName.SEMANTIC, stored, 0.75)
    for question in judged:
        arm.judge(replace(question, ttl_seconds=0.0), hit, Verdict.RIGHT)
    assert isinstance(await arm.ask(asked), kind)


async def test_lookups_are_timed_with_the_embedder_itself() -> None:
    embedder = AngleEmbedder()
    replayer = Replayer(semantics(embedder))
    rows = [row(f"{n}@{n}", str(n)) for n in range(20)]
    await replayer.play(questions(placed(rows), RULES, 1e9), lambda _: None)
    embedder.calls.clear()
    found = await replayer.result(embedder)
    assert found.times is not None
    assert found.times.lookups == len(embedder.calls) == 20
    assert "A lookup takes" in as_text(found)


def test_zipf_draws_answers_by_rank_and_the_same_again() -> None:
    rows = [row(f"{answer}-{n}", str(answer)) for answer in range(50) for n in range(2)]
    asked = list(questions(placed(rows), RULES, 1e9))
    drawn = list(drawn_by_zipf(asked, 1.0, 20_000, seed=3))
    counts = [count for _, count in Counter(q.answer for q in drawn).most_common()]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.25)
    assert len({q.key for q in drawn}) == 100
    assert [q.number for q in drawn] == list(range(20_000))
    assert list(drawn_by_zipf(asked, 1.0, 20_000, seed=3)) == drawn
    assert list(drawn_by_zipf(asked, 1.0, 20_000, seed=4)) != drawn
    assert list(drawn_by_zipf([], 1.0, 5, seed=3)) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"text": "x"},
        {"answer_key": "x"},
        row("x", "A", t_ms="soon"),
        row("x", "A", model=3),
        {"text": 7, "answer_key": "x"},
    ],
)
async def test_a_row_that_cannot_be_asked_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="file line 2"):
        await play(row("a@0", "A"), bad)
