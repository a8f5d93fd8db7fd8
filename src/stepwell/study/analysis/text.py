"""An analysis as text for a terminal."""

from typing import Any

from stepwell.study.analysis import shown
from stepwell.study.progress import duration
from stepwell.study.terminal import plain
from stepwell.telemetry.tables import share, table

Json = dict[str, Any]

_SHOWN_PAIRS = 3
_WIDTH = 90
_NAME = 24


def as_text(figures: Json) -> str:
    """Return the figures of `stepwell.study.analysis.figures`, ending in a line feed."""
    parts = [_head(figures), *_notes(figures)]
    if figures["lines"]["requests"]:
        parts += [_caches(figures), _prefixes(figures), _classes(figures), *_pairs(figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(figures: Json) -> str:
    lines, run, repeats = figures["lines"], figures["run"], figures["repeats"]
    text = f"{lines['requests']:,} requests"
    if times := shown.when(figures):
        text += f" {times}"
    text += (
        f"; {repeats['requests']:,} ({share(repeats['share'])}) were asked before word for word."
    )
    speed = run["lines_per_second"] or 0
    return (
        f"{text}\n{lines['read']:,} lines in {duration(run['seconds'])}, {speed:,.0f} a second;"
        f" {run['texts_embedded']:,} texts embedded."
    )


def _notes(figures: Json) -> list[str]:
    lines, run = figures["lines"], figures["run"]
    notes = [f"passed over, {plain(why, 60)}: {n:,}" for why, n in lines["unusable"].items()]
    notes += [
        f"Stepwell's own log, which has no words, {plain(result, 40)}: {n:,}"
        for result, n in lines["gateway_log"].items()
    ]
    notes += [plain(broken, 300) for broken in lines["broken_files"]]
    notes += [
        f"no layer may answer, {plain(why, 60)}: {n:,}" for why, n in lines["bypassed"].items()
    ]
    counted = {
        "failed, so not stored": lines["failed"],
        "without a time; taken to be made when the one before was": lines["without_time"],
        "before the one above; taken to be made at the same time": lines["out_of_order"],
        "without tokens; estimated at four bytes each": lines["tokens_estimated"],
        "without a duration; counted as none": lines["without_seconds"],
        "texts the embedder failed at": run["embedder_failed"],
    }
    notes += [f"{what}: {n:,}" for what, n in counted.items() if n]
    return ["\n".join(notes)] if notes else []


def _caches(figures: Json) -> str:
    currency = figures["run"]["currency"]
    rows = [["would have saved", "exact", "semantic", "hit rate", "tokens", "time", currency]]
    for name, cache in figures["caches"].items():
        saved = cache["saved"]
        rows.append(
            [
                name,
                f"{cache['exact']['requests']:,}",
                f"{cache['semantic']['requests']:,}",
                share(cache["hit_rate"]),
                f"{saved['prompt_tokens'] + saved['completion_tokens']:,}",
                shown.seconds(saved, figures),
                shown.money(saved, figures),
            ]
        )
    spent = figures["spent"]
    tokens = spent["prompt_tokens"] + spent["completion_tokens"]
    cost = [shown.seconds(spent, figures), shown.money(spent, figures)]
    rows.append(["(all requests)", "", "", "", f"{tokens:,}", *cost])
    text = table(rows)
    if spent["unpriced_tokens"]:
        text += f"\nmoney leaves out {spent['unpriced_tokens']:,} tokens that have no price"
    return text


def _prefixes(figures: Json) -> str:
    found, behind = figures["prefixes"]["all"], figures["prefixes"]["behind_the_cache"]
    return (
        f"Prompts begin like an earlier one for {share(found['share_of_tokens'])} of their tokens"
        f" ({found['shared_tokens']:,}); those the cache would not have answered, for"
        f" {share(behind['share_of_tokens'])}."
    )


def _classes(figures: Json) -> str:
    names = list(figures["caches"])
    rows = [["class", "requests", "repeats", *(f"hits, {name}" for name in names)]]
    for name, part in figures["classes"].items():
        hits = part["hits"]
        cells = [f"{sum(hits[cache].values()):,}" if cache in hits else "-" for cache in names]
        rows.append([plain(name, _NAME), f"{part['requests']:,}", f"{part['repeats']:,}", *cells])
    return table(rows)


def _pairs(figures: Json) -> list[str]:
    titles = {
        "served": "Served, least similar: is the answer to the second right for the first?",
        "refused_for_a_difference": "Similar, and refused: does the answer really differ?",
        "not_similar_enough": "Not similar enough by a little:",
    }
    blocks = []
    for kind, title in titles.items():
        pairs = figures["look_at"][kind][:_SHOWN_PAIRS]
        lines = [title]
        for pair in pairs:
            why = f" {pair['refused_by']}" if kind == "refused_for_a_difference" else ""
            asked, stored = _side_by_side(pair["asked"], pair["stored"])
            lines.append(f"  {pair['similarity']:.3f}{why}  {asked}")
            lines.append(f"         {stored}")
        if pairs:
            blocks.append("\n".join(lines))
    return blocks


def _side_by_side(one: str, other: str) -> tuple[str, str]:
    """Return two texts cut to a line each, so that it shows where they begin to differ."""
    texts = [plain(text, len(text)) for text in (one, other)]
    same = 0
    for first, second in zip(*texts, strict=False):
        if first.casefold() != second.casefold():
            break
        same += 1
    start = 0 if same < _WIDTH - _LEAD else same - _LEAD
    first, second = (_cut(text, start) for text in texts)
    return first, second


_LEAD = 30
"""Characters shown before the first that differs."""


def _cut(text: str, start: int) -> str:
    return plain(f"…{text[start:]}" if start else text, _WIDTH)
