"""The structured log: one JSON object a line."""

import asyncio
from datetime import UTC, datetime
from typing import assert_never

import orjson

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.events import (
    Bypassed,
    Degraded,
    Event,
    RequestEnded,
    Resumed,
    UpstreamFailed,
    WarmedUp,
)
from stepwell.core.ports import EventSink
from stepwell.telemetry.lasting import Lasting
from stepwell.telemetry.lines import MAX_LINE_BYTES, LineWriter

HOLD_SECONDS = 0.1
"""How long a line may wait for others before it is handed to the writing thread."""

HOLD_BYTES = 64 * 1024
"""How many bytes of lines may wait."""

HOLD_EVENTS = 32
"""How many events may wait to become lines. One after the other they cost half of what they cost in
between other work, and so few do not hold the loop up."""

_CLOSE_SECONDS = 1.0
_SHORT_CHARACTERS = 60

_Fields = dict[str, str | float | None]
_Logged = RequestEnded | Degraded | Bypassed | Resumed | UpstreamFailed | WarmedUp


class RequestLog:
    """Writes a line for each request, with its trail, and for each failure; an `EventSink`.

    A component that fails in the same way again and again gets a line a minute, with the number of
    failures ``unsaid`` since the last. For the failures of a part that is bypassed the line that
    says so stands, for a minute.

    For one event loop, which it never holds up: when what reads the log does not keep up, or
    the disk is full, lines are dropped, and their number is reported as a `Degraded` event of
    the component ``telemetry.log``. No text of a prompt or an answer is ever in a line; control
    characters in a name are escaped, so that a line is always one object. A request costs about
    two microseconds (`benchmarks/telemetry.py`).
    """

    def __init__(self, descriptor: int, *, events: EventSink, clock: Clock | None = None) -> None:
        """Start the writing thread; call it in the process that logs, after any fork.

        Args:
            descriptor: Where to write: 1, 2, or a file opened to append. Not closed here.
            events: Told of lines lost. Better not this log, whose next lines are lost as well.
            clock: The machine's, unless given.
        """
        self._writer = LineWriter(descriptor)
        self._events = events
        self._now = (clock or SystemClock()).now
        self._millisecond = -1
        self._written_time = ""
        self._held: list[tuple[float, _Logged]] = []
        """Events and when they came,"""
        self._lines = bytearray()
        """and the lines of those before them."""
        self._timer: asyncio.TimerHandle | None = None
        self._lasting = Lasting()

    def emit(self, event: Event) -> None:
        """Log ``event``, if it is of a kind that is logged. Must be called on the event loop."""
        if not isinstance(event, _Logged):
            return  # Counted only: too many to read, and a request's trail says the same.
        self._held.append((self._now(), event))
        if len(self._held) >= HOLD_EVENTS:
            self._write_down()
        if len(self._lines) >= HOLD_BYTES:
            self._hand_over()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._hand_over)

    async def aclose(self) -> None:
        """Write what is held, for at most a second. Nothing may be emitted afterwards."""
        self._hand_over()
        self._writer.offer(self._rest())
        if not await asyncio.to_thread(self._writer.close, _CLOSE_SECONDS):
            self._events.emit(Degraded("telemetry.log", "last lines not taken before the end"))
        self._report_lost()

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write_down()
        lines, self._lines = self._lines, bytearray()
        self._writer.offer(lines)
        self._report_lost()

    def _write_down(self) -> None:
        held, self._held = self._held, []
        for moment, event in held:
            self._lines += self._line(moment, event)

    def _line(self, moment: float, event: _Logged) -> bytes:
        match event:
            case RequestEnded():
                return _line(_request_fields(event, self._written(moment)))
            case Degraded(component, error):
                unsaid = self._lasting.say(component, error, moment)
                return b"" if unsaid is None else self._degraded(moment, component, error, unsaid)
            case Bypassed(part, reason):
                self._lasting.explain(f"store.{part}", moment)
                return self._said(moment, "bypassed", {"part": part, "reason": reason})
            case Resumed(part, seconds):
                self._lasting.forget(f"store.{part}")
                return self._said(moment, "resumed", {"part": part, "seconds": seconds})
            case UpstreamFailed(upstream, kind):
                return self._said(moment, "upstream_failed", {"upstream": upstream, "kind": kind})
            case WarmedUp():
                return self._said(moment, "warmed_up", _warm_up_fields(event))
            case _:
                assert_never(event)

    def _degraded(self, moment: float, component: str, error: str, unsaid: int) -> bytes:
        fields: _Fields = {"component": component, "error": error}
        return self._said(moment, "degraded", fields | {"unsaid": unsaid} if unsaid else fields)

    def _said(self, moment: float, event: str, fields: _Fields) -> bytes:
        return _line({"time": self._written(moment), "event": event, **fields})

    def _rest(self) -> bytearray:
        """Return lines for what has not been said."""
        now = self._now()
        return bytearray().join(self._degraded(now, *problem) for problem in self._lasting.unsaid())

    def _written(self, moment: float) -> str:
        """Return a time as RFC 3339 writes it; written once for all lines of a millisecond."""
        millisecond = int(moment * 1000)
        if millisecond != self._millisecond:
            self._millisecond = millisecond
            written = datetime.fromtimestamp(millisecond / 1000, UTC)
            self._written_time = written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self._written_time

    def _report_lost(self) -> None:
        lost = self._writer.take_lost()
        if lost:
            self._events.emit(Degraded("telemetry.log", f"{lost} lines lost"))


def _request_fields(event: RequestEnded, time: str) -> _Fields:
    return {
        "time": time,
        "event": "request",
        "result": event.result,
        "layer": event.layer,
        "class": event.request_class,
        "endpoint": event.endpoint,
        "model": event.model,
        "upstream": event.upstream,
        "status": event.status,
        "stream": event.stream,
        "seconds": event.seconds,
        "first_byte_seconds": event.first_byte_seconds,
        "prompt_tokens": event.usage.prompt_tokens,
        "completion_tokens": event.usage.completion_tokens,
        "cached_tokens": event.usage.cached_tokens,
        "saved_seconds": event.saved_seconds,
        "trail": event.trail,
        "tenant": event.tenant,
    }


def _warm_up_fields(event: WarmedUp) -> _Fields:
    return {
        "upstream": event.upstream,
        "replica": event.replica,
        "prompt": event.prompt,
        "seconds": event.seconds,
        "prompt_tokens": event.usage.prompt_tokens,
        "cached_tokens": event.usage.cached_tokens,
    }


def _line(fields: _Fields) -> bytes:
    """Return ``fields`` as a line of at most `MAX_LINE_BYTES`."""
    try:
        line = orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:  # a lone surrogate, from a ``\ud800`` in a caller's JSON
        line = b""
    if line and len(line) <= MAX_LINE_BYTES:
        return line
    return orjson.dumps(
        {
            name: _shortened(value) if isinstance(value, str) else value
            for name, value in fields.items()
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _shortened(text: str) -> str:
    printable = text.encode(errors="replace").decode()
    if len(printable) <= _SHORT_CHARACTERS:
        return printable
    return printable[: _SHORT_CHARACTERS - 1] + "…"
