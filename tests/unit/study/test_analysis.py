"""What caching would save on a log, and the report on it."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.study import RULES, AngleEmbedder, semantics

from stepwell.core.names import Endpoint
from stepwell.study.analysis import findings as findings_module
from stepwell.study.analysis.analyzer import Analyzer
from stepwell.study.analysis.figures import figures
from stepwell.study.analysis.findings import EXACT, Run
from stepwell.study.analysis.looks import KEPT, marked
from stepwell.study.analysis.page import as_html
from stepwell.study.analysis.popular import Popular
from stepwell.study.analysis.prefixes import BLOCK_BYTES, Prefixes
from stepwell.study.analysis.recent import Recent
from stepwell.study.analysis.svg import Series, stacked_bars
from stepwell.study.analysis.text import as_text
from stepwell.study.lines import LineFile
from stepwell.study.rules import AS_CONFIGURED
from stepwell.telemetry.prices import ModelPrice, Prices

PRICES = Prices("EUR", {"m": ModelPrice(1_000_000, 2_000_000)})
START = 1_700_000_000.0


def request(text: str, at: float = 0.0, **more: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return {"ts": START + at, "body": body, "usage": usage, "latency": 1.5} | more


async def analyze(
    folder: Path,
    lines: Sequence[object],
    *,
    by_meaning: bool = True,
    embedder: AngleEmbedder | None = None,
    max_entries: int = 1_000,
) -> dict[str, Any]:
    path = folder / "log.jsonl"
    path.write_bytes(
        b"".join(
            (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
            for line in lines
        )
    )
    analyzer = Analyzer(
        RULES,
        PRICES,
        semantics=semantics(embedder) if by_meaning else None,
        max_entries=max_entries,
        tenant_field="tenant",
    )
    with LineFile(str(path)) as file:
        await analyzer.read(file, lambda _: None)
    run = Run((str(path),), "angles@1", {"general": 0.9}, "EUR", 2.0, 5, 0, max_entries)
    return figures(analyzer.finish(), run)


async def test_what_each_cache_would_have_saved(tmp_path: Path) -> None:
    told = await analyze(
        tmp_path, [request("a@0"), request("a@0", 1), request("b@20", 2), request("c@80", 3)]
    )
    exact, general = told["caches"][EXACT], told["caches"]["general"]
    assert (exact["exact"]["requests"], exact["semantic"]["requests"]) == (1, 0)
    assert (general["exact"]["requests"], general["semantic"]["requests"]) == (1, 1)
    assert told["caches"]["strict"]["semantic"]["requests"] == 0
    assert general["saved"] == {
        "requests": 2,
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "seconds": 3.0,
        "money": 14.0,
        "unpriced_tokens": 0,
    }
    assert told["spent"]["requests"] == 4
    assert general["hit_rate"] == 0.5
    assert told["repeats"] == {"requests": 1, "share": 0.25}
    assert told["classes"]["general"]["hits"]["general"] == {"exact": 1, "semantic": 1}
    assert told["hours"]["2023-11-14T22:00Z"]["requests"] == 4
    assert told["hours_of_day"][22]["hits"][AS_CONFIGURED] == {"exact": 1, "semantic": 1}


async def test_times_without_dates(tmp_path: Path) -> None:
    """Times that count from a start of their own have no hours of the day, and it is said so."""
    lines = [{"text": f"a@{n}", "t_ms": n * 3_600_000} for n in range(3)]
    told = await analyze(tmp_path, lines)
    assert (told["lines"]["first"], told["lines"]["span_seconds"]) == (None, 7_200.0)
    assert told["hours_of_day"] == []
    assert list(told["hours"]) == ["+0 h", "+1 h", "+2 h"]
    text, html = as_text(told), as_html(told)
    assert text.startswith("3 requests over 2 h 00 min (by a clock of their own: no dates")
    assert "1970" not in text + html
    assert "Requests by hour of the day" not in html
    assert "Requests by hour, by the log&#x27;s own clock" in html


async def test_what_is_not_known_is_no_nought(tmp_path: Path) -> None:
    """Neither time nor money, where the log and the prices say nothing of them."""
    told = await analyze(tmp_path, [{"model": "free", "prompt": "a@0"}] * 2)
    row = re.search("^general .*$", as_text(told), re.MULTILINE)
    assert row is not None
    assert row[0].split()[-2:] == ["-", "-"]
    assert "<td>-</td><td>-</td></tr>" in as_html(told)
    known = as_text(await analyze(tmp_path, [request("a@0")] * 2))
    assert re.search(r"^general .* 2 s +7\.00$", known, re.MULTILINE)


async def test_pairs_are_cut_where_they_differ(tmp_path: Path) -> None:
    """Not so that both lines read the same."""
    same = "word " * 60
    texts = [f"{same}first thing@0", f"{same}second thing@20"]
    text = as_text(await analyze(tmp_path, [request(each, n) for n, each in enumerate(texts)]))
    asked, stored = (line for line in text.splitlines() if "…word" in line)
    assert asked.endswith("word word second thing@20")
    assert stored.endswith("word word first thing@0")
    assert max(len(asked), len(stored)) <= 100


def test_axes_count_whole_requests() -> None:
    """There is no half of one."""
    drawn = stacked_bars("Requests", ["a"], [Series("exact", "exact", [65])])
    assert re.findall(r'text-anchor="end">([^<]*)<', drawn) == ["0", "32", "65"]
    one = stacked_bars("Requests", ["a"], [Series("exact", "exact", [1])])
    assert re.findall(r'text-anchor="end">([^<]*)<', one) == ["0", "1"]


async def test_answers_expire_by_class(tmp_path: Path) -> None:
    """An hour for what is general; a repeat beyond it is counted, and saves nothing."""
    told = await analyze(tmp_path, [request("a@0"), request("a@0", 3_600), request("b@0", 3_601)])
    assert told["repeats"]["requests"] == 1
    general = told["caches"]["general"]
    assert (general["exact"]["requests"], general["semantic"]["requests"]) == (0, 1)


async def test_tenants_share_nothing(tmp_path: Path) -> None:
    lines = [
        request("a@0", tenant="x"),
        request("a@0", 1, tenant="y"),
        request("b@0", 2, tenant="x"),
    ]
    told = await analyze(tmp_path, lines)
    assert told["caches"]["faq"]["saved"]["requests"] == 1


async def test_what_failed_is_not_stored(tmp_path: Path) -> None:
    told = await analyze(tmp_path, [request("a@0", status=500), request("a@0", 1)])
    assert told["caches"]["faq"]["saved"]["requests"] == 0
    assert told["lines"]["failed"] == 1


async def test_what_no_layer_may_answer_is_named(tmp_path: Path) -> None:
    stored = request("a@0")
    stored["body"]["store"] = True
    told = await analyze(tmp_path, [stored, stored, request("Who is the president?")])
    assert told["lines"]["bypassed"] == {"store": 2, "class factual": 1}
    assert told["caches"]["faq"]["saved"]["requests"] == 0


async def test_hostile_lines_are_counted_and_take_nothing_with_them(tmp_path: Path) -> None:
    bad_control = request("x")
    bad_control["body"]["metadata"] = {"stepwell_level": "no such level"}
    deep = b"[" * 5_000 + b"]" * 5_000
    told = await analyze(
        tmp_path,
        [b"{", b"\xff", {"a": 1}, bad_control, request("a@0"), b"", deep, request("a@0", 1)],
    )
    unusable = told["lines"]["unusable"]
    assert unusable["not JSON"] == unusable["not UTF-8"] == unusable["no request in it"] == 1
    assert unusable["a request no gateway would take"] == 1
    assert told["caches"][EXACT]["exact"]["requests"] == 1
    assert told["lines"]["read"] == 8


async def test_times_that_jump_make_no_endless_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.study.analysis.analyzer.MAX_HOURS", 3)
    told = await analyze(tmp_path, [request(f"{n}@{n}", n * 4_000) for n in range(10)])
    assert len(told["hours"]) == 4
    assert sum(part["requests"] for part in told["hours"].values()) == 10
    assert told["hours"]["other"]["requests"] > 0
    assert findings_module.MAX_HOURS > 3


async def test_lines_out_of_order_or_without_a_time(tmp_path: Path) -> None:
    lines = [request("a@0", 100), request("a@0", 50), {"prompt": "a@0"}]
    told = await analyze(tmp_path, lines)
    assert (told["lines"]["out_of_order"], told["lines"]["without_time"]) == (1, 1)
    assert told["caches"][EXACT]["exact"]["requests"] == 1


async def test_a_bounded_cache_evicts(tmp_path: Path) -> None:
    told = await analyze(tmp_path, [request(f"{n}@{n * 30}", n) for n in range(5)], max_entries=2)
    assert told["caches"]["general"]["evicted"] == 3


async def test_without_an_embedder(tmp_path: Path) -> None:
    told = await analyze(tmp_path, [request("a@0"), request("a@0", 1)], by_meaning=False)
    assert list(told["caches"]) == [EXACT]
    assert told["caches"][EXACT]["exact"]["requests"] == 1
    assert "a@0" in as_html(told)


async def test_tokens_are_estimated_where_the_log_has_none(tmp_path: Path) -> None:
    line = {"messages": [{"role": "user", "content": "x" * 400}], "ts": START}
    told = await analyze(tmp_path, [line])
    assert told["lines"]["tokens_estimated"] == 1
    assert 100 <= told["spent"]["prompt_tokens"] <= 120


async def test_the_pairs_to_look_at(tmp_path: Path) -> None:
    told = await analyze(
        tmp_path,
        [request("served@0"), request("asked@25", 1), request("no@90", 2), request("near@60", 3)],
    )
    (served,) = told["look_at"]["served"]
    assert (served["asked"], served["stored"]) == ("asked@25", "served@0")
    # What was farther away by much, such as no@90 from served@0, is not among them.
    (too_far,) = told["look_at"]["not_similar_enough"]
    assert (too_far["asked"], too_far["stored"]) == ("near@60", "no@90")
    assert sum(told["similarity"]["served"]) == 1


async def test_only_the_pairs_nearest_to_the_border_are_kept(tmp_path: Path) -> None:
    lines = [request("base@0")]
    lines += [request(f"w{n}@{26 + n * 0.1:.1f}", n, tenant="") for n in range(100)]
    told = await analyze(tmp_path, [*lines, *lines])
    pairs = told["look_at"]["not_similar_enough"]
    assert len(pairs) <= KEPT
    similarities = [pair["similarity"] for pair in pairs]
    assert similarities == sorted(similarities, reverse=True)
    assert len({(p["asked"], p["stored"]) for p in pairs}) == len(pairs)


def test_the_words_that_differ_are_marked() -> None:
    one, other = marked("How do I raise the limit?", "how do I lower the limit")
    assert [piece for piece, differs in one if differs] == ["raise", "?"]
    assert [piece for piece, differs in other if differs] == ["lower"]
    assert "".join(piece for piece, _ in one) == "How do I raise the limit?"
    chinese, _ = marked("如何提高额度", "如何降低额度")
    assert chinese == [("如何", False), ("提高", True), ("额度", False)]


def test_long_texts_are_not_compared_word_by_word() -> None:
    long = "x " * 100_000
    assert marked(long, "y") == ([(long, False)], [("y", False)])


def test_shared_beginnings_end_at_the_first_difference() -> None:
    prefixes = Prefixes()

    def take(system: str, model: str = "m") -> int:
        turns = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
        return prefixes.take(Endpoint.CHAT, {"model": model, "messages": turns}).shared_bytes

    system = "s" * 10 * BLOCK_BYTES
    assert take(system) == 0
    assert take(system + "more") == 10 * BLOCK_BYTES
    assert take("x" + system[1:]) == 0
    assert take(system, model="other") == 0
    changed = system[: 5 * BLOCK_BYTES] + "x" + system[5 * BLOCK_BYTES + 1 :]
    assert take(changed) == 5 * BLOCK_BYTES


def test_a_longer_conversation_shares_all_of_the_shorter() -> None:
    prefixes, turns = Prefixes(), [{"role": "user", "content": "a" * 640}]
    first = prefixes.take(Endpoint.CHAT, {"model": "m", "messages": turns})
    longer = [*turns, {"role": "assistant", "content": "b" * 640}]
    second = prefixes.take(Endpoint.CHAT, {"model": "m", "messages": longer})
    assert first.prompt_bytes - second.shared_bytes < BLOCK_BYTES


def test_what_is_not_met_for_long_is_forgotten() -> None:
    recent = Recent(10)
    assert [recent.meet(1), recent.meet(1)] == [False, True]
    for value in range(100, 140):
        recent.meet(value)
        recent.meet(2)
    assert recent.meet(2)
    assert not recent.meet(1)
    assert len(recent) <= 20


def test_popular_values_survive_a_flood_of_rare_ones() -> None:
    popular = Popular(capacity=50)
    for n in range(5_000):
        popular.meet(f"rare {n}")
        if n % 10 == 0:
            popular.meet("often")
    ((value, count), *_) = popular.most(5)
    assert value == "often"
    assert 400 < count <= 500


HOSTILE = (
    "</bdi></td><script>alert(1)</script><img src=x onerror=alert(2)>'\" & \u202e \x00 \x1b[31m"
)


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


async def hostile_report(tmp_path: Path) -> dict[str, Any]:
    lines = [
        request(f"{HOSTILE} one@0", 0),
        request(f"{HOSTILE} one@0", 1),
        request(f"{HOSTILE} two@20", 2),
        request(f"{HOSTILE} three@60", 4_000),
        {"event": "request", "result": HOSTILE, "trail": ""},
    ]
    return await analyze(tmp_path, lines)


async def test_no_text_of_a_log_becomes_a_part_of_the_page(tmp_path: Path) -> None:
    """Logs are written by strangers."""
    page = Page(as_html(await hostile_report(tmp_path)))
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "a", "link", "iframe"})
    assert "alert(1)" in page.text
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("href", "src") for name in attributes)


async def test_the_page_needs_and_loads_nothing(tmp_path: Path) -> None:
    html = as_html(await hostile_report(tmp_path))
    page = Page(html)
    assert "default-src 'none'" in next(
        attributes["content"] or ""
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"https?://", html)
    assert sum(tag == "svg" for tag, _ in page.tags) >= 3
    assert not any("\x00" in text or "\x1b" in text or "\u202e" in text for text in (html,))


async def test_the_page_is_well_formed(tmp_path: Path) -> None:
    """Every element that is opened is closed, in order."""
    html = as_html(await hostile_report(tmp_path))
    open_tags: list[str] = []
    for found in re.finditer(r"<(/?)([a-z0-9]+)[^>]*?(/?)>", html):
        closes, tag, alone = found.groups()
        if alone or tag == "meta":
            continue
        if closes:
            assert open_tags.pop() == tag
        else:
            open_tags.append(tag)
    assert open_tags == []


async def test_nothing_of_a_log_moves_the_terminal(tmp_path: Path) -> None:
    text = as_text(await hostile_report(tmp_path))
    assert all(c.isprintable() or c == "\n" for c in text)


async def test_an_empty_log(tmp_path: Path) -> None:
    told = await analyze(tmp_path, [])
    assert told["repeats"]["share"] is None
    assert "0 requests" in as_text(told)
    assert as_html(told).startswith("<!DOCTYPE html>")


async def test_all_figures_are_json(tmp_path: Path) -> None:
    told = await analyze(tmp_path, [request("unknown@1"), request("broken", 1), request("a@0", 2)])
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["caches"]["general"]["misses_by_reason"]["unknown-tokens"] == 1
    assert told["caches"]["general"]["misses_by_reason"]["embedder"] == 1
