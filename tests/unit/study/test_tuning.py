"""Levels from labelled pairs."""

import tomllib
from dataclasses import replace
from typing import Any, get_args

import pytest
from support.study import LEVELS, SCHEME, AngleEmbedder, HandComparer, placed

from stepwell.assembly.settings import parse_settings
from stepwell.core.errors import ConfigError
from stepwell.core.names import Level
from stepwell.semantic.acceptance.calibration import Compared
from stepwell.study.curve import draw
from stepwell.study.labels import NOT_LABELLED, PARTITION, SAME, Labels, Measured, measure
from stepwell.study.levels import TARGETS, as_toml, by_kind, recommend
from stepwell.study.remembering import RememberingEmbedder
from stepwell.study.tuning import as_json, as_text, tune


def pair(
    similarity: float, *, right: bool, number: int = 0, refused_by: str | None = None, **more: Any
) -> Measured:
    texts = (f"a{similarity}{number}{right}", f"b{similarity}{number}{right}")
    known: dict[str, Any] = {"language": "other", "request_class": "", "category": ""} | more
    return Measured(texts, right, similarity, refused_by, **known)


def at_all_levels(pairs: list[Measured]) -> dict[Level, list[Measured]]:
    """Without a comparison every level sees the same."""
    return dict.fromkeys(get_args(Level), pairs)


def clear_cut(border: float = 0.8, count: int = 400) -> list[Measured]:
    """Above the border all may share an answer, below none."""
    high = [pair(border + 0.0004 * n, right=True, number=n) for n in range(count)]
    return high + [pair(border - 0.01 - 0.001 * n, right=False, number=n) for n in range(count)]


async def labels(*rows: dict[str, Any]) -> list[Measured | str]:
    embedder = RememberingEmbedder(AngleEmbedder())
    return [found async for found in measure(placed(rows), embedder, SCHEME)]


async def test_rows_are_measured_or_left_out_for_a_reason() -> None:
    found = await labels(
        {"a": "a@0", "b": "b@60", "label": 1, "category": "negation", "class": "faq"},
        {"a": "comment je puis rendre les chaussures", "b": "et pour une autre", "label": 0},
        {"a": "如何开启通知@1", "b": "如何打开提醒@1", "label": 0},
        {"a": "a", "b": "b", "label": None},
        {"a": "a", "b": " a", "label": 1},
        {"a": "unknown", "b": "a", "label": 1},
        {"a": "broken", "b": "a", "label": 1},
        {"a": [{"role": "user", "content": "x"}], "b": {"messages": "x"}, "label": 1},
    )
    first, french, second = found[:3]
    assert isinstance(french, Measured)
    assert french.language == "other"
    assert isinstance(first, Measured)
    assert isinstance(second, Measured)
    assert (first.right, round(first.similarity, 3)) == (True, 0.5)
    assert (first.category, first.request_class, first.language) == ("negation", "faq", "en")
    assert (second.right, second.language) == (False, "zh")
    assert found[3:] == [NOT_LABELLED, SAME, "unknown-tokens", "embedder", PARTITION]


COMPARED = Compared(
    {"strict": 0.9, "general": 0.6, "faq": 0.5}, {"strict": 0.99, "general": 0.95, "faq": 0.9}
)


@pytest.mark.parametrize(
    ("measured", "levels"),
    [
        (pair(0.8, right=True, score=0.6), ["general", "faq"]),
        (pair(0.8, right=True, score=0.5), ["faq"]),
        (pair(0.95, right=True, score=None), ["general", "faq"]),
        (pair(0.99, right=True, score=0.9, refused_by="number"), []),
    ],
)
def test_what_the_comparison_refuses_a_level_does_not_see(
    measured: Measured, levels: list[Level]
) -> None:
    """By the level's own score; what cannot be compared, by the similarity it needs then."""
    seen = [level for level in get_args(Level) if not measured.at(level, COMPARED).refused_by]
    assert seen == levels
    assert measured.at("general", None) is measured


async def test_pairs_are_compared_if_anything_compares() -> None:
    """But not those that the valve refuses anyway."""
    rows = [
        {"a": "how to return shoes", "b": "how to give shoes back", "label": 1},
        {"a": "how to return 2 shoes", "b": "how to return 3 shoes", "label": 0},
        {"a": "how to return shoes", "b": "how to return a shoe", "label": 1},
    ]
    comparer = HandComparer({"how to give shoes back": 0.75}, failing="how to return a shoe")
    found = [
        row
        async for row in measure(
            placed(rows), RememberingEmbedder(AngleEmbedder()), SCHEME, comparer
        )
    ]
    assert [row.score for row in found if isinstance(row, Measured)] == [0.75, None]
    assert [other for _, other in comparer.asked] == [rows[0]["b"], rows[2]["b"]]
    assert found[2] == "embedder"


def test_levels_are_tuned_by_what_each_sees() -> None:
    """A strict level that sees fewer wrong pairs may ask for less similarity."""
    good = [pair(0.8 + 0.0004 * n, right=True, number=n, score=0.95) for n in range(400)]
    bad = [pair(0.8 + 0.0004 * n, right=False, number=n, score=0.7) for n in range(400)]
    tuning = tune(Labels([*good, *bad], {}), "angles@1", TARGETS, LEVELS.min_similarity, COMPARED)
    shown = {r.level: r.point is not None for r in tuning.recommendations}
    assert shown == {"strict": True, "general": False, "faq": False}
    assert tuning.curve.points[0].hits == 800


@pytest.mark.parametrize(
    "bad", [{"a": "x", "b": "y"}, {"a": "x", "label": 1}, {"a": "x", "b": "y", "label": 2}]
)
async def test_a_row_that_is_no_label_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="file line 1"):
        await labels(bad)


def test_the_curve_counts_what_is_at_least_so_similar() -> None:
    pairs = [
        pair(0.9, right=True),
        pair(0.8, right=False),
        pair(0.7, right=True),
        pair(0.95, right=False, refused_by="negation"),
    ]
    told = {p.similarity: (p.hits, p.right) for p in draw(pairs, with_valve=True).points}
    assert told == {0.7: (3, 2), 0.8: (2, 1), 0.9: (1, 1)}
    bare = {p.similarity: (p.hits, p.right) for p in draw(pairs, with_valve=False).points}
    assert bare[0.9] == (2, 1)
    point = draw(pairs, with_valve=True).points[0]
    assert (point.hit_rate, point.false_hit_rate, point.measured) == (1.0, 0.5, 2 / 3)


def test_the_level_is_the_least_similarity_that_is_surely_enough() -> None:
    pairs = clear_cut(0.8)
    found = recommend(at_all_levels(pairs), TARGETS, LEVELS.min_similarity)
    by_level = {r.level: r for r in found}
    # 400 clean hits show 99 %; a few wrong ones are no harm to the others.
    assert by_level["strict"].similarity == pytest.approx(0.8, abs=0.005)
    assert by_level["general"].similarity == pytest.approx(0.78, abs=0.015)
    assert by_level["faq"].similarity < by_level["general"].similarity
    for recommended in found:
        assert recommended.point is not None
        assert recommended.point.sure >= recommended.target
    held_out = by_level["general"].held_out
    assert held_out is not None
    assert held_out.precision.high >= 0.95


def test_too_few_labels_say_how_many_are_needed_and_change_nothing() -> None:
    pairs = clear_cut(0.8, count=50)
    found = recommend(at_all_levels(pairs), TARGETS, LEVELS.min_similarity)
    strict = found[0]
    assert (strict.similarity, strict.point) == (0.99, None)
    assert "381 hits without a single error" in strict.why
    assert "What is in force stays" in strict.why


def test_pairs_that_hang_together_count_as_less() -> None:
    """One text in many pairs is one piece of luck: Wilson alone would be too sure."""
    alone = clear_cut(0.8, count=100)
    wrong = [pair(0.85, right=False, number=1_000 + n) for n in range(3)]
    spread = draw(alone + wrong, with_valve=True)
    one_cluster = [replace(one, texts=("hub", f"{n}")) for n, one in enumerate(wrong)]
    together = draw(alone + one_cluster, with_valve=True)
    at = next(p for p in together.points if p.similarity >= 0.8)
    same = next(p for p in spread.points if p.similarity == at.similarity)
    assert (at.hits, at.right) == (same.hits, same.right)
    assert at.precision_by_cluster.low < same.precision_by_cluster.low


def test_levels_stay_in_order() -> None:
    """Where only the loose level is shown, the strict ones do not fall below it."""
    low: dict[Level, float] = {"strict": 0.1, "general": 0.1, "faq": 0.1}
    pairs = clear_cut(0.8, count=40)
    found = recommend(at_all_levels(pairs), TARGETS, low)
    similarities = [r.similarity for r in found]
    assert similarities == sorted(similarities, reverse=True)
    assert found[-1].point is not None
    assert found[0].point is None


def test_a_level_that_must_rise_says_so_in_text_and_file() -> None:
    """What is in force stays only where it may: stricter levels ask for as much as looser ones."""
    in_force: dict[Level, float] = {"strict": 0.9345, "general": 0.1, "faq": 0.1}
    found = recommend(at_all_levels(clear_cut(0.8, count=40)), TARGETS, in_force)
    strict, general, faq = found
    assert faq.point is not None
    assert (strict.similarity, general.similarity) == (0.9345, faq.similarity)
    assert strict.why.endswith("What is in force stays.")
    assert general.why.endswith(
        f"What is in force, 0.100, cannot stay: a looser level needs {faq.similarity:.3f},"
        " and a stricter one must not ask for less."
    )
    written = as_toml(found, "angles@1", 80)
    assert "# strict: not shown by the labels; as in force\n" in written
    assert "# general: not shown by the labels; raised from 0.100 to what a looser" in written
    assert tomllib.loads(written)["semantic"]["levels"] == {r.level: r.similarity for r in found}


def test_the_written_levels_are_settings() -> None:
    pairs = clear_cut(0.8)
    found = recommend(at_all_levels(pairs), TARGETS, LEVELS.min_similarity)
    written = as_toml(found, "model\n[server]\nport = 1 # @x", len(pairs))
    settings = parse_settings(tomllib.loads(written))
    assert settings.semantic.levels.strict == found[0].similarity
    assert settings.server.port == 8080


def test_kinds_with_most_wrong_hits_come_first() -> None:
    pairs = [
        pair(0.9, right=False, category="number"),
        pair(0.9, right=True, category="paraphrase"),
        pair(0.9, right=False, category="negation", refused_by="negation"),
    ]
    kinds = by_kind(pairs, 0.8)
    assert [(k.name, k.hits_that_must_not) for k in kinds] == [
        ("number", 1),
        ("negation", 0),
        ("paraphrase", 0),
    ]


def test_text_and_json_tell_the_same() -> None:
    pairs = [*clear_cut(0.8), pair(0.9, right=True, language="zh", category="\x1b[31mred")]
    tuning = tune(Labels(pairs, {NOT_LABELLED: 3}), "angles@1", TARGETS, LEVELS.min_similarity)
    told, text = as_json(tuning), as_text(tuning)
    assert told["pairs"] == 801
    assert told["left_out"] == {NOT_LABELLED: 3}
    assert set(told["groups"]) == {"language other", "language zh"}
    assert f"strict (99.0% right): {told['levels']['strict']['similarity']:.3f}" in text
    assert "not labelled: 3" in text
    assert "\x1b" not in text
    assert max(map(len, text.split("\n\n")[1].splitlines())) <= 80


def test_no_pairs_at_all() -> None:
    """Nothing is divided by nothing."""
    tuning = tune(Labels([], {}), "angles@1", TARGETS, LEVELS.min_similarity)
    assert as_json(tuning)["levels"]["faq"]["shown"] is False
    assert "Too few labels" in as_text(tuning)
