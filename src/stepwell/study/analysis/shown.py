"""Figures as people read them, the same on a terminal and on the page."""

from typing import Any

from stepwell.study.progress import duration

Json = dict[str, Any]

_UNKNOWN = "-"


def when(figures: Json) -> str:
    """Return when the requests were made; empty where the log has no times."""
    lines = figures["lines"]
    if lines["span_seconds"] is None:
        return ""
    if lines["first"] is None:
        span = duration(lines["span_seconds"])
        return f"over {span} (by a clock of their own: no dates, no hours of the day)"
    return f"from {lines['first']} to {lines['last']}"


def seconds(account: Json, figures: Json) -> str:
    """Return how long the model servers took; ``-`` where the log says it of no request."""
    lines = figures["lines"]
    if lines["without_seconds"] == lines["requests"]:
        return _UNKNOWN
    return duration(account["seconds"])


def money(account: Json, figures: Json) -> str:
    """Return what answers cost; ``-`` where nothing has a price."""
    spent = figures["spent"]
    if spent["unpriced_tokens"] and not spent["money"]:
        return _UNKNOWN
    return f"{account['money']:,.2f}"
