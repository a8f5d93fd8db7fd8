"""Times and numbers as logs write them. Pure; nothing here raises."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard

from stepwell.core.entry import Usage

_TIMES = (
    "ts timestamp @timestamp time t_ms created_at created start_time startTime request_created_at"
).split()
_STARTS = "start_time startTime".split()
_ENDS = "end_time endTime".split()
_SECONDS = "latency latency_s duration duration_s seconds elapsed response_time total_time".split()
_MILLISECONDS = (
    "latency_ms duration_ms elapsed_ms response_ms response_time_ms total_ms total_time_ms"
).split()
_PROMPT = ("prompt_tokens", "input_tokens")
_COMPLETION = ("completion_tokens", "output_tokens")

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From where on a number is no seconds since the epoch any more, and what it is then."""

_LAST = 253_402_300_799.0
"""The end of the year 9999, where `datetime` ends."""

_MAX_TOKENS = 10**9
_DAY = 86_400.0
_MILLI = 1_000.0


def moment_of(row: Mapping[str, Any]) -> float | None:
    """Return when a request was made, in seconds since the epoch or any other start."""
    for name in _TIMES:
        if name in row and (found := _moment(row[name], in_ms=name.endswith("_ms"))) is not None:
            return found
    return None


def _moment(value: object, *, in_ms: bool) -> float | None:
    if isinstance(value, str):
        number = _number(value)
        return _parsed(value) if number is None else _moment(number, in_ms=in_ms)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) if abs(value) < _MAX_FLOAT else math.inf
    if in_ms:
        seconds /= _MILLI
    else:
        seconds /= next((unit for least, unit in _UNITS if seconds >= least), 1.0)
    return seconds if 0 <= seconds <= _LAST else None


_MAX_FLOAT = 10**300


def _number(text: str) -> float | None:
    try:
        value = float(text[:40])
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _parsed(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text[:40].strip())
    except ValueError:
        return None
    try:
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= _LAST else None


def seconds_of(row: Mapping[str, Any]) -> float | None:
    """Return how long the answer took, if the log says."""
    for names, unit in ((_MILLISECONDS, _MILLI), (_SECONDS, 1.0)):
        for name in names:
            value = row.get(name)
            if _is_number(value) and 0 <= value / unit <= _DAY:
                return float(value / unit)
    started, ended = _first(row, _STARTS), _first(row, _ENDS)
    if started is not None and ended is not None and 0 <= ended - started <= _DAY:
        return ended - started
    return None


def _first(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    found = (_moment(row[name], in_ms=False) for name in names if name in row)
    return next((moment for moment in found if moment is not None), None)


def usage_of(*places: object) -> Usage | None:
    """Return the tokens that the first of ``places`` has that has any."""
    for place in places:
        if isinstance(place, dict):
            prompt, completion = _tokens(place, _PROMPT), _tokens(place, _COMPLETION)
            if prompt is not None or completion is not None:
                return Usage(prompt or 0, completion or 0)
    return None


def _tokens(place: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = place.get(name)
        if _is_number(value) and 0 <= value <= _MAX_TOKENS:
            return int(value)
    return None


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
