"""Pairs of questions, compared through the real layers."""

import re
from typing import Any

import pytest
from support.study import SCHEME, AngleEmbedder, placed, semantics

from stepwell.cli.main import main
from stepwell.core.errors import ConfigError
from stepwell.core.names import Level
from stepwell.core.vectors import Unfit
from stepwell.semantic.acceptance.verdict import TOO_FAR
from stepwell.semantic.comparison import COMPARISON
from stepwell.semantic.valve.difference import Kind
from stepwell.study import pairs as module
from stepwell.study.pairs import Pairs


async def compare(
    *rows: dict[str, Any], level: Level = "general", embedder: AngleEmbedder | None = None
) -> list[dict[str, Any]]:
    pairs = Pairs(semantics(embedder), SCHEME, level)
    return [found.as_row() async for found in pairs.compare(placed(rows))]


def row(a: object, b: object) -> dict[str, Any]:
    return {"a": a, "b": b, "label": 1, "whatever": None}


async def test_near_enough_or_not() -> None:
    near, far = await compare(row("a@0", "b@20"), row("a@0", "b@60"))
    assert near == {"hit": True, "similarity": 0.939693, "refused_by": None}
    assert far == {"hit": False, "similarity": 0.5, "refused_by": "similarity"}


async def test_the_level_decides() -> None:
    rows = [row("a@0", "b@20"), row("a@0", "b@35")]
    assert [r["hit"] for r in await compare(*rows, level="strict")] == [False, False]
    assert [r["hit"] for r in await compare(*rows, level="general")] == [True, False]
    assert [r["hit"] for r in await compare(*rows, level="faq")] == [True, True]


async def test_the_same_question_is_answered_by_the_exact_layer() -> None:
    """Same after the key's normalisation; such a text needs no vector."""
    same = {"hit": True, "similarity": 1.0, "refused_by": None}
    assert await compare(row("a@0 ", "a@0"), row("unknown", "unknown")) == [same, same]


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ("", "b@0", "empty"),
        ("a@0", " ", "empty"),
        ("unknown 1", "b@0", "unknown-tokens"),
        ("a@0", "unknown 2", "unknown-tokens"),
        ("broken", "b@0", "embedder"),
        ("a@0", "broken", "embedder"),
    ],
)
async def test_what_has_no_vector_is_not_alike(a: str, b: str, why: str) -> None:
    assert await compare(row(a, b)) == [{"hit": False, "similarity": 0.0, "refused_by": why}]


async def test_what_stands_around_the_words_must_be_the_same() -> None:
    """Conversations and bodies are compared as the gateway would."""
    turn = {"role": "user", "content": "a@0"}
    system = {"role": "system", "content": "Be brief."}
    other = {"role": "user", "content": "b@1"}
    first, second, third = await compare(
        row([system, turn], [system, other]),
        row([system, turn], [other]),
        row(
            {"messages": [turn], "temperature": 0.0},
            {"messages": [other], "temperature": 0.5},
        ),
    )
    assert (first["hit"], first["refused_by"]) == (True, None)
    assert (second["hit"], second["refused_by"]) == (False, "partition")
    assert (third["hit"], third["refused_by"]) == (False, "temperature")


async def test_every_pair_is_on_its_own() -> None:
    """What another pair stored is never found."""
    rows = [row("a@0", "x@90"), row("far@45", "a@0")]
    assert [r["similarity"] for r in await compare(*rows)] == [0.0, 0.707107]


async def test_order_is_kept_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 7)
    angles = [(n * 37) % 90 for n in range(100)]
    found = await compare(*(row(f"a{n}@0", f"b{n}@{angle}") for n, angle in enumerate(angles)))
    assert [r["hit"] for r in found] == [angle <= 25 for angle in angles]


async def test_a_file_is_streamed() -> None:
    """Rows are read as they are needed: a file need not fit into memory."""
    taken = 0

    def rows() -> Any:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield f"line {number}", row(f"a{number}@0", "b@0")

    async for _ in Pairs(semantics(), SCHEME, "general").compare(rows()):
        break
    assert taken == module.PAIRS_AT_ONCE


@pytest.mark.parametrize("bad", [{"a": "x"}, {"b": "x"}, row(1, "x"), row("x", []), row("x", None)])
async def test_a_row_that_is_no_pair_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="file line 2"):
        await compare(row("a", "b"), bad)


def test_the_help_names_all_that_may_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pairs", "--help"])
    said = set(re.findall(r"[\w-]+", capsys.readouterr().out))
    others = {TOO_FAR, COMPARISON, "temperature", "partition", "words", "embedder"}
    assert {*map(str, Kind), *map(str, Unfit), *others} <= said
