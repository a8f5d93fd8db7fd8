"""An analysis as an object of JSON: all figures, and the only place where they are worked out."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from stepwell.study.analysis.findings import (
    HISTOGRAM_BINS,
    OTHER_HOURS,
    Account,
    CacheFindings,
    Findings,
    Part,
    PrefixFindings,
    Run,
)
from stepwell.study.analysis.looks import Pair

Json = dict[str, Any]

_HOUR = 3_600
_HOURS_A_DAY = 24


def figures(findings: Findings, run: Run) -> Json:
    """Return everything that was found."""
    requests = findings.lines.requests
    return {
        "run": _run(run, findings),
        "lines": _lines(findings),
        "spent": asdict(findings.spent),
        "repeats": {"requests": findings.repeats, "share": _share(findings.repeats, requests)},
        "caches": {name: _cache(cache, findings.spent) for name, cache in findings.caches.items()},
        "prefixes": {
            "all": _prefixes(findings.prefixes),
            "behind_the_cache": _prefixes(findings.prefixes_behind),
        },
        "classes": {
            name: _part(part)
            for name, part in sorted(findings.classes.items(), key=lambda kv: -kv[1].requests)
        },
        "hours": {
            _hour(hour, findings): _part(part) for hour, part in sorted(findings.hours.items())
        },
        "hours_of_day": _hours_of_day(findings),
        "similarity": {
            "bins": [place / HISTOGRAM_BINS for place in range(HISTOGRAM_BINS)],
            "served": findings.served_at,
            "refused_for_a_difference": findings.refused_at,
            "not_similar_enough": findings.too_far_at,
        },
        "look_at": {
            "served": _pairs(findings.looks.served.pairs()),
            "not_similar_enough": _pairs(findings.looks.too_far.pairs()),
            "refused_for_a_difference": _pairs(findings.looks.refused.pairs()),
        },
        "popular": [{"text": text, "requests": count} for text, count in findings.popular],
    }


def _run(run: Run, findings: Findings) -> Json:
    return {
        "files": list(run.files),
        "embedder": run.model_id or None,
        "levels": dict(run.levels),
        "currency": run.currency,
        "seconds": run.seconds,
        "lines_per_second": findings.lines.read / run.seconds if run.seconds else None,
        "texts_embedded": run.embedded,
        "embedder_failed": run.failed,
        "max_entries": run.max_entries,
    }


def _lines(findings: Findings) -> Json:
    lines = findings.lines
    return {
        "read": lines.read,
        "requests": lines.requests,
        "unusable": dict(lines.unusable.most_common()),
        "gateway_log": dict(lines.gateway.most_common()),
        "broken_files": lines.broken_files,
        "bypassed": dict(lines.bypassed.most_common()),
        "failed": lines.failed,
        "without_time": lines.without_time,
        "out_of_order": lines.out_of_order,
        "tokens_estimated": lines.estimated_tokens,
        "without_seconds": lines.without_seconds,
        "first": _time(lines.first_at) if lines.has_dates else None,
        "last": _time(lines.last_at) if lines.has_dates else None,
        "span_seconds": _span(lines.first_at, lines.last_at),
    }


def _cache(cache: CacheFindings, spent: Account) -> Json:
    saved = _added((cache.exact, cache.semantic))
    return {
        "exact": asdict(cache.exact),
        "semantic": asdict(cache.semantic),
        "saved": asdict(saved),
        "hit_rate": _share(saved.requests, spent.requests),
        "share_of_tokens": _share(_tokens(saved), _tokens(spent)),
        "share_of_seconds": _share(saved.seconds, spent.seconds),
        "share_of_money": _share(saved.money, spent.money),
        "misses_by_reason": dict(cache.missed.most_common()),
        "evicted": cache.evicted,
    }


def _added(accounts: Iterable[Account]) -> Account:
    total = Account()
    for account in accounts:
        for name, value in asdict(account).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def _tokens(account: Account) -> int:
    return account.prompt_tokens + account.completion_tokens


def _prefixes(found: PrefixFindings) -> Json:
    return {
        "requests": found.requests,
        "requests_with_shared": found.with_shared,
        "prompt_bytes": found.prompt_bytes,
        "shared_bytes": found.shared_bytes,
        "share": _share(found.shared_bytes, found.prompt_bytes),
        "prompt_tokens": round(found.prompt_tokens),
        "shared_tokens": round(found.shared_tokens),
        "share_of_tokens": _share(found.shared_tokens, found.prompt_tokens),
    }


def _part(part: Part) -> Json:
    return {
        "requests": part.requests,
        "repeats": part.repeats,
        "hits": {
            name: {"exact": exact, "semantic": semantic}
            for name, (exact, semantic) in part.hits.items()
        },
    }


def _hours_of_day(findings: Findings) -> list[Json]:
    """Return the hours of the day, in UTC, each with all its requests and hits of all days.

    None where the log has no dates.
    """
    if not findings.lines.has_dates:
        return []
    by_hour = [Part() for _ in range(_HOURS_A_DAY)]
    for hour, part in findings.hours.items():
        if hour == OTHER_HOURS:
            continue
        total = by_hour[hour % _HOURS_A_DAY]
        total.requests += part.requests
        total.repeats += part.repeats
        for name, hits in part.hits.items():
            known = total.hits.setdefault(name, [0, 0])
            known[0] += hits[0]
            known[1] += hits[1]
    return [_part(part) for part in by_hour]


def _hour(hour: int, findings: Findings) -> str:
    if hour == OTHER_HOURS:
        return "other"
    if findings.lines.first_at is None:
        return "unknown"
    if not findings.lines.has_dates:
        return f"+{hour} h"
    return datetime.fromtimestamp(hour * _HOUR, UTC).strftime("%Y-%m-%dT%H:00Z")


def _span(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else last - first


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _pairs(pairs: Iterable[Pair]) -> list[Json]:
    return [
        {
            "asked": pair.asked,
            "stored": pair.stored,
            "similarity": round(pair.similarity, 4),
            "refused_by": pair.why or None,
            "class": pair.request_class,
        }
        for pair in pairs
    ]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
