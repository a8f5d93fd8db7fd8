"""The savings statement adds up."""

import json
from dataclasses import replace

import pytest

from stepwell.core.entry import Usage
from stepwell.core.events import (
    HitJudged,
    HitNotJudged,
    HitWithheld,
    Result,
    UpstreamAnswered,
    UpstreamFailed,
)
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.prices import ModelPrice, Prices
from stepwell.telemetry.savings import (
    Account,
    ClassLine,
    LayerLine,
    PrefixLine,
    Statement,
    as_json,
    draw_up,
)
from stepwell.telemetry.savings_text import render_statement
from stepwell.testing.events import make_request_ended


@pytest.fixture
def statement() -> Statement:
    """Six hits in two classes, one by meaning, one collapsed, two misses, one of each other."""
    meters = Meters(Prices("USD", {"model": ModelPrice(1_000_000.0, 1_000_000.0)}))
    for _ in range(4):
        meters.emit(make_request_ended(Result.HIT))
    meters.emit(make_request_ended(Result.HIT, layer="semantic", request_class="常见问题"))
    meters.emit(make_request_ended(Result.HIT, layer="semantic", model="new"))
    meters.emit(make_request_ended(Result.COLLAPSED, layer="none"))
    for _ in range(2):
        meters.emit(make_request_ended(Result.MISS, layer="none"))
        meters.emit(UpstreamAnswered("local", "model", 3.0, 1.0, Usage(7, 11)))
    for result in (Result.ERROR, Result.BYPASS, Result.REJECTED, Result.CANCELLED):
        meters.emit(make_request_ended(result, layer="none"))
    meters.emit(UpstreamFailed("local", "timeout"))
    return draw_up(meters.values(), since=0.0)


def test_statement(statement: Statement) -> None:
    """Each figure is the sum of what was counted for it."""
    assert statement == Statement(
        since=0.0,
        requests=13,
        by_result={
            "hit": 6,
            "miss": 2,
            "collapsed": 1,
            "bypass": 1,
            "rejected": 1,
            "error": 1,
            "cancelled": 1,
        },
        hit_ratio=0.7,
        calls_avoided=7,
        calls_made=2,
        calls_failed=1,
        saved=Account(49, 77, 3.5, {"USD": 108.0}, 18),
        spent=Account(14, 22, 6.0, {"USD": 36.0}, 0),
        layers=(
            LayerLine("exact", 4, 72, 2.0, {"USD": 72.0}),
            LayerLine("semantic", 2, 36, 1.0, {"USD": 18.0}),
            LayerLine("none", 1, 18, 0.5, {"USD": 18.0}),
        ),
        classes=(
            ClassLine("general", 12, 6, 6 / 9, 3.0),
            ClassLine("常见问题", 1, 1, 1.0, 0.5),
        ),
        judged=(),
        prefixes=(PrefixLine("local", 0, 0, 14, None),),
    )


def test_text(statement: Statement) -> None:
    """The page is aligned, also where names are in Chinese, and says what it leaves out."""
    assert render_statement(statement) == (
        """\
hit ratio 70.0%, 7 model server calls avoided
counted since 1970-01-01 00:00 UTC

requests            13
  hit                6  46.2%
  miss               2  15.4%
  collapsed          1   7.7%
  bypass             1   7.7%
  rejected           1   7.7%
  error              1   7.7%
  cancelled          1   7.7%
model server calls   3
  failed             1

                    saved  spent
prompt tokens          49     14
completion tokens      77     22
model server time   3.5 s  6.0 s
money (USD)        108.00  36.00

layer           answers  tokens   time    USD
exact                 4      72  2.0 s  72.00
semantic              2      36  1.0 s  18.00
another's call        1      18  0.5 s  18.00

class     requests  answers  hit ratio   time
general         12        6      66.7%  3.0 s
常见问题         1        1     100.0%  0.5 s

money saved leaves out 18 tokens that have no price
"""
    )


def test_judgements() -> None:
    """Of answers to other words the page says how many were right, how sure that is, by whom."""
    meters = Meters()
    for _ in range(73):
        meters.emit(HitWithheld("常见问题"))
        meters.emit(HitJudged("right", "shadow", "常见问题"))
    meters.emit(HitWithheld("常见问题"))
    meters.emit(HitNotJudged("unsure", "shadow", "常见问题"))
    meters.emit(HitJudged("wrong", "person", "faq"))
    statement = draw_up(meters.values())
    assert """
other words       withheld  right  wrong  unjudged  precision    95 % interval
faq, person              -      0      1         0          -                -
常见问题, shadow        74     73      0         1     100.0%  95.0% to 100.0%
""" in render_statement(statement)
    lines = json.loads(as_json(statement))["judged"]
    assert [(line["request_class"], line["by"]) for line in lines] == [
        ("faq", "person"),
        ("常见问题", "shadow"),
    ]
    assert lines[0]["precision"] is None
    assert lines[1]["lower"] == pytest.approx(0.95, abs=0.001)


def test_prefix_caches() -> None:
    """What an upstream says of its prefix cache is shown, a silent zero as well."""
    meters = Meters()
    for usage in (Usage(1000, 1, 900), Usage(1000, 1, 0), Usage(500, 1)):
        meters.emit(UpstreamAnswered("local", "m", 1.0, 1.0, usage))
    meters.emit(UpstreamAnswered("api", "m", 1.0, 1.0, Usage(4000, 1)))
    statement = draw_up(meters.values())
    assert """
prompts read by  cached  computed  not said  cached share
api                   0         0     4,000             -
local               900     1,100       500         45.0%
""" in render_statement(statement)
    api, local = json.loads(as_json(statement))["prefixes"]
    assert (api["cached_share"], local["cached_share"]) == (None, 0.45)
    assert local["unsaid_tokens"] == 500


def test_large_numbers_stay_readable() -> None:
    """Long times and large sums are written in the units people use."""
    saved = Account(12_345_678, 0, 3 * 3600 + 125, {"EUR": 1234.5}, 0)
    spent = Account(0, 0, 61, {"EUR": 0.0042}, 0)
    page = render_statement(replace(draw_up({}), saved=saved, spent=spent))
    assert (
        """\
                        saved       spent
prompt tokens      12,345,678           0
completion tokens           0           0
model server time  3 h 02 min  1 min 01 s
money (EUR)          1,234.50      0.0042
"""
        in page
    )


def test_nothing_yet() -> None:
    """Before the first request there is a statement, without a ratio."""
    statement = draw_up({})
    assert statement.hit_ratio is None
    assert render_statement(statement).startswith("hit ratio -, 0 model server calls avoided\n\n")


def test_json(statement: Statement) -> None:
    """The JSON form has the same figures under the fields' names."""
    parsed = json.loads(as_json(statement))
    assert parsed["hit_ratio"] == 0.7
    assert parsed["saved"]["prompt_tokens"] == 49
    assert [line["layer"] for line in parsed["layers"]] == ["exact", "semantic", "none"]
