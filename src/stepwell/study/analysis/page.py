"""An analysis as one HTML page that needs nothing else: no script, no network.

What a log says is a stranger's text. Everything goes through `escape`, and the page's own policy
forbids to load or run anything, should that ever be forgotten.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from stepwell.study.analysis import shown
from stepwell.study.analysis.looks import Piece, marked
from stepwell.study.analysis.svg import Series, stacked_bars
from stepwell.study.progress import duration
from stepwell.telemetry.tables import share

Json = dict[str, Any]

_MAX_BARS = 72
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(figures: Json) -> str:
    """Return the figures of `stepwell.study.analysis.figures` as a page."""
    style = (resources.files(__package__) / "page.css").read_text("utf-8")
    sections = [
        _summary(figures),
        _caches(figures),
        _over_time(figures),
        _of_day(figures),
        _classes(figures),
        _prefixes(figures),
        _similarities(figures),
        *_looks(figures),
        _popular(figures),
        _notes(figures),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>What caching would save</title><style>{style}</style></head><body><main>"
        f"<h1>What caching would save</h1>{''.join(filter(None, sections))}</main></body></html>\n"
    )


def _summary(figures: Json) -> str:
    lines, repeats = figures["lines"], figures["repeats"]
    last = list(figures["caches"].values())[-1]
    currency, spent = figures["run"]["currency"], figures["spent"]
    tiles = {
        "requests": f"{lines['requests']:,}",
        "asked before, word for word": share(repeats["share"]),
        "answered by the cache as configured": share(last["hit_rate"]),
        "of the tokens": share(last["share_of_tokens"]),
        "of the model servers' time": share(last["share_of_seconds"]),
    }
    if spent["money"]:
        tiles[f"{currency} of {spent['money']:,.2f}"] = f"{last['saved']['money']:,.2f}"
    times = shown.when(figures)
    made = f"<p>Made {escape(times)}.</p>" if times else ""
    boxes = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>"
        for name, value in tiles.items()
    )
    return f'{made}<div class="tiles">{boxes}</div>'


def _caches(figures: Json) -> str:
    caches = figures["caches"]
    bars = stacked_bars(
        "Requests answered",
        list(caches),
        [
            Series("exact", "exact", [c["exact"]["requests"] for c in caches.values()]),
            Series("semantic", "semantic", [c["semantic"]["requests"] for c in caches.values()]),
        ],
    )
    rows = [
        [
            name,
            f"{c['exact']['requests']:,}",
            f"{c['semantic']['requests']:,}",
            share(c["hit_rate"]),
            f"{c['saved']['prompt_tokens'] + c['saved']['completion_tokens']:,}",
            shown.seconds(c["saved"], figures),
            shown.money(c["saved"], figures),
        ]
        for name, c in caches.items()
    ]
    head = ["cache", "exact", "semantic", "hit rate", "tokens", "time", figures["run"]["currency"]]
    return _section("What each would have saved", bars + _table(head, rows))


def _over_time(figures: Json) -> str:
    hours = {
        name: part for name, part in figures["hours"].items() if name not in ("other", "unknown")
    }
    if len(hours) < 2:  # noqa: PLR2004  (one bar is no plot)
        return ""
    size = -(-len(hours) // _MAX_BARS)
    parts = list(hours.items())
    grouped = [parts[start : start + size] for start in range(0, len(parts), size)]
    labels = [_hour(group[0][0]) for group in grouped]
    what = "hour" if size == 1 else f"{size} hours that had requests"
    series = _hit_series([[part for _, part in group] for group in grouped])
    clock = "by the log's own clock" if figures["lines"]["first"] is None else "UTC"
    return _section("By time", stacked_bars(f"Requests by {what}, {clock}", labels, series))


def _hour(name: str) -> str:
    """Return an hour in short: with a date it has a month and a day."""
    return name[5:13].replace("T", " ") + "h" if name.endswith("Z") else name


def _of_day(figures: Json) -> str:
    parts = figures["hours_of_day"]
    if not parts:
        return ""
    labels = [f"{hour:02}" for hour in range(len(parts))]
    series = _hit_series([[part] for part in parts])
    return stacked_bars("Requests by hour of the day, UTC", labels, series)


def _hit_series(groups: Sequence[Sequence[Json]]) -> list[Series]:
    exact, semantic, missed = [], [], []
    for group in groups:
        hits = [list(part["hits"].values())[-1] for part in group if part["hits"]]
        exact.append(sum(hit["exact"] for hit in hits))
        semantic.append(sum(hit["semantic"] for hit in hits))
        missed.append(sum(part["requests"] for part in group) - exact[-1] - semantic[-1])
    return [
        Series("exact", "exact", exact),
        Series("semantic", "semantic", semantic),
        Series("asked the model server", "missed", missed),
    ]


def _classes(figures: Json) -> str:
    names = list(figures["caches"])
    rows = []
    for name, part in figures["classes"].items():
        cells = [
            share(sum(part["hits"][cache].values()) / part["requests"])
            if cache in part["hits"]
            else "-"
            for cache in names
        ]
        rows.append([name, f"{part['requests']:,}", f"{part['repeats']:,}", *cells])
    return _section("By class", _table(["class", "requests", "repeats", *names], rows))


def _prefixes(figures: Json) -> str:
    names = {"all": "all requests", "behind_the_cache": "those the cache would not have answered"}
    rows = [
        [
            names[key],
            f"{found['requests']:,}",
            f"{found['requests_with_shared']:,}",
            f"{found['shared_tokens']:,}",
            share(found["share_of_tokens"]),
        ]
        for key, found in figures["prefixes"].items()
    ]
    head = ["prompts of", "requests", "that begin like an earlier one", "tokens shared", "of all"]
    return _section("Shared beginnings", _table(head, rows))


def _similarities(figures: Json) -> str:
    found = figures["similarity"]
    if not any(map(sum, (found[name] for name in _DECISIONS))):
        return ""
    series = [Series(name, style, found[key]) for key, (name, style) in _DECISIONS.items()]
    used = [place for place in range(len(found["bins"])) if any(s.values[place] for s in series)]
    first = used[0]
    labels = [f"{start:.2f}" for start in found["bins"][first:]]
    cut = [Series(s.name, s.style, s.values[first:]) for s in series]
    return _section("How alike the nearest was", stacked_bars("Lookups by cosine", labels, cut))


_DECISIONS: Mapping[str, tuple[str, str]] = {
    "served": ("served", "semantic"),
    "refused_for_a_difference": ("refused for a difference", "refused"),
    "not_similar_enough": ("not similar enough", "missed"),
}

_LOOKS: Mapping[str, tuple[str, str]] = {
    "served": (
        "Look at: served, least similar first",
        "Is the answer to the second right for the first? If not, the level is too low.",
    ),
    "refused_for_a_difference": (
        "Look at: similar, and refused for a difference",
        "Does the answer really differ? If not, a hit was lost.",
    ),
    "not_similar_enough": (
        "Look at: not similar enough by a little",
        "If most of these could share an answer, the level is too high.",
    ),
}


def _looks(figures: Json) -> Iterable[str]:
    for key, (title, question) in _LOOKS.items():
        pairs = figures["look_at"][key]
        if pairs:
            cards = "".join(map(_card, pairs))
            yield _section(title, f"<p>{escape(question)}</p>{cards}", is_open=key == "served")


def _card(pair: Json) -> str:
    asked, stored = marked(pair["asked"], pair["stored"])
    why = f" · {escape(pair['refused_by'])}" if pair["refused_by"] else ""
    return (
        f'<div class="pair"><p class="tick">{pair["similarity"]:.3f}{why} ·'
        f" {escape(pair['class'])}</p>"
        f'<p class="words"><i>asked</i> {_words(asked)}</p>'
        f'<p class="words"><i>stored</i> {_words(stored)}</p></div>'
    )


def _words(pieces: Iterable[Piece]) -> str:
    # Isolated, so that a right-to-left mark in a text does not turn the page around.
    return (
        "<bdi>"
        + "".join(
            f"<mark>{_stranger(piece)}</mark>" if differs else _stranger(piece)
            for piece, differs in pieces
        )
        + "</bdi>"
    )


def _stranger(text: str) -> str:
    """Return a stranger's text for the page: escaped, and what cannot be seen made visible."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
    return escape(shown)


def _popular(figures: Json) -> str:
    rows = [[f"{one['requests']:,}", one["text"]] for one in figures["popular"]]
    if not rows:
        return ""
    body = "".join(
        f'<tr><td>{escape(count)}</td><td class="words"><bdi>{_stranger(text)}</bdi></td></tr>'
        for count, text in rows
    )
    inside = f'<div class="wide"><table class="texts"><tbody>{body}</tbody></table></div>'
    return _section("Asked most often", inside, is_open=False)


def _notes(figures: Json) -> str:
    lines, run = figures["lines"], figures["run"]
    rows: list[list[str]] = [
        [f"{name.replace('_', ' ')}{': ' + key if key else ''}", f"{count:,}"]
        for name, value in lines.items()
        for key, count in (value.items() if isinstance(value, dict) else [("", value)])
        if isinstance(count, int)
    ]
    rows += [["file", name] for name in run["files"]]
    rows += [["broken", text] for text in lines["broken_files"]]
    rows += [[f"level {name}", f"{least:.3f}"] for name, least in run["levels"].items()]
    rows += [
        ["embedder", run["embedder"] or "none: nothing was compared by meaning"],
        ["texts embedded", f"{run['texts_embedded']:,}"],
        ["entries each cache holds", f"{run['max_entries']:,}"],
        ["took", duration(run["seconds"])],
    ]
    return _section("How this was made", _table(["", ""], rows), is_open=False)


def _section(title: str, inside: str, *, is_open: bool = True) -> str:
    return (
        f"<details{' open' if is_open else ''}><summary><h2>{escape(title)}</h2></summary>"
        f"{inside}</details>"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{_stranger(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
