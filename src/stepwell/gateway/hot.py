"""The hot path: a repeat of a request is answered in the protocol's callback, from memory.

What makes a request a repeat is the digest of its raw bytes: target, the header fields that
matter, body. Behind the digest stands the `Question` that the long way made of the same bytes
once, so nothing is parsed and nothing is keyed a second time.
"""

import hashlib
from collections.abc import Iterable, Sequence

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.events import RequestEnded, Result
from stepwell.core.names import Form
from stepwell.core.ports import EventSink
from stepwell.gateway.replies import CONTENT_TYPES
from stepwell.pipeline.exchange import spell
from stepwell.pipeline.intake import KEYED_HEADERS
from stepwell.pipeline.question import Question
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.served import Served

MAX_REMEMBERED = 50_000
"""Questions kept; about 1 KB each. The oldest is forgotten first and made again when asked."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

_ALWAYS = (b"authorization", b"cache-control", *[name.encode() for name in KEYED_HEADERS])
_OURS = b"x-stepwell-"


class HotPath:
    """Answers repeats without a task, a parse or a wait.

    One event loop; not thread-safe. Cost: see ``benchmarks/gateway_hit.py``.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        clock: Clock,
        events: EventSink,
        extra_headers: Iterable[str] = (),
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._events = events
        self._relevant = frozenset({*_ALWAYS, *[name.encode() for name in extra_headers]})
        self._questions: dict[bytes, Question] = {}
        self._server_fields: RawHeaders = ()
        self._server_lines = b""

    def digest(self, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
        """Return what tells requests apart: SHA-256, so that nobody can make two that collide.

        Neither a target nor a field holds a line end, so the parts cannot run into each other.
        """
        lines = [target]
        for name, value in headers:
            if name in self._relevant or name.startswith(_OURS):
                lines += (name, value)
        lines += (b"", body)
        return hashlib.sha256(b"\n".join(lines)).digest()

    def remember(self, digest: bytes, question: Question) -> None:
        """Note what a request with this digest asks. Questions that bypass are not noted."""
        if question.key is None:
            return
        questions = self._questions
        if len(questions) >= MAX_REMEMBERED and digest not in questions:
            del questions[next(iter(questions))]
        questions[digest] = question

    def answer(self, digest: bytes, server_fields: RawHeaders) -> tuple[bytes, bytes] | None:
        """Return head and body of the reply, or ``None``: then the long way answers.

        Args:
            digest: Of the request.
            server_fields: What the server says in every reply, such as the date; the same list
                for as long as they are the same.
        """
        started = self._clock.monotonic()
        question = self._questions.get(digest)
        if question is None:
            return None
        served = self._runner.answer_now(question)
        if served is None or not isinstance(served.body, bytes):
            return None
        head = _head(served, len(served.body), self._lines(server_fields))
        seconds = self._clock.monotonic() - started
        self._events.emit(
            RequestEnded(  # By position: this is made for every hit, and names cost as much again.
                _HIT,
                "exact",
                question.request_class.name,
                question.endpoint,
                question.model,
                question.upstream,
                200,
                served.form is Form.SSE,
                seconds,
                seconds,
                served.usage or _NO_USAGE,
                served.saved_seconds,
                served.trail[0],
                spell(question.namespace),
            )
        )
        return head, served.body

    def _lines(self, fields: RawHeaders) -> bytes:
        if fields is not self._server_fields:
            self._server_fields = fields
            self._server_lines = b"".join([b"%b: %b\r\n" % field for field in fields])
        return self._server_lines


_HIT = Result.HIT
_NO_USAGE = Usage()

_HEADS = {
    form: (
        f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nx-cache: HIT\r\n"
        "cache-status: stepwell; hit; ttl=%d; detail=exact\r\nage: %d\r\n"
        "x-stepwell-key: %b\r\ncontent-length: %d\r\n%b\r\n"
    ).encode()
    for form, content_type in CONTENT_TYPES.items()
}


def _head(served: Served, length: int, server_lines: bytes) -> bytes:
    """The same fields as `stepwell.gateway.replies.header_of`, written in one go."""
    key = b"" if served.key is None else served.key.hex().encode()
    ttl, age = int(served.ttl_seconds // 1), int(served.age_seconds)
    return _HEADS[served.form] % (ttl, age, key, length, server_lines)
