"""The hot path: a repeat of a request is answered in the protocol's callback, from memory.

What makes a request a repeat is the digest of its raw bytes: target, the header fields that
matter, body. Behind the digest stands the `Question` that the long way made of the same bytes
once and, while nothing but time has passed, the reply it got: so nothing is parsed, keyed, judged
or written a second time. Where even the bytes on the wire are the same, from the first to the
last, they are not read as HTTP again either: they can only come to the same digest.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.events import RequestEnded, Result
from stepwell.core.names import CacheKey, Form
from stepwell.core.outcome import Hit
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.gateway.replies import CONTENT_TYPES
from stepwell.pipeline.exchange import spell
from stepwell.pipeline.intake import KEYED_HEADERS
from stepwell.pipeline.question import Question
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.served import Served
from stepwell.policy.freshness import fresh_window

MAX_REMEMBERED = 50_000
"""Questions kept, and repeats; about 1.5 KB for both. The oldest is forgotten first and made again
when it is asked."""

DIGEST = "stepwell.digest"
"""Where the ASGI scope has the digest of a request that the hot path could not answer yet."""

_T = TypeVar("_T")

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

_ALWAYS = (b"authorization", b"cache-control", *[name.encode() for name in KEYED_HEADERS])
_OURS = b"x-stepwell-"


class _Repeat(NamedTuple):
    """What is known of a reply that was given once. It holds no answer: that may be evicted."""

    question: Question
    key: CacheKey
    created_at: float
    """With the key, says which entry it was."""
    since: float
    until: float
    """While the entry is fresh: ``since <= now < until``."""
    head: bytes
    """What stays the same of the reply's head."""
    trail: str
    tenant: str


class HotPath:
    """Answers repeats without a task, a parse or a wait.

    One event loop; not thread-safe. Cost: see ``benchmarks/gateway_hit.py``.
    """

    def __init__(
        self,
        runner: Runner,
        exact: ExactLayer,
        *,
        clock: Clock,
        events: EventSink,
        extra_headers: Iterable[str] = (),
    ) -> None:
        self._runner = runner
        self._exact = exact
        self._clock = clock
        self._events = events
        self._relevant = frozenset({*_ALWAYS, *[name.encode() for name in extra_headers]})
        self._questions: dict[bytes, Question] = {}
        self._repeats: dict[bytes, _Repeat] = {}
        self._read: dict[bytes, bytes] = {}
        """What whole requests on the wire, by their SHA-256, came to when they were read."""
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

    def digest_read(self, wire: bytes) -> bytes | None:
        """Return the digest of a request of which the SHA-256 on the wire is ``wire``, if known."""
        return self._read.get(wire)

    def note_read(self, wire: bytes, digest: bytes) -> None:
        """Note what a whole request came to that was read from between two requests on."""
        _keep(self._read, wire, digest)

    def remember(self, digest: bytes, question: Question) -> None:
        """Note what a request with this digest asks. Questions that bypass are not noted."""
        if question.key is not None:
            _keep(self._questions, digest, question)

    def answer(self, digest: bytes, server_fields: RawHeaders) -> tuple[bytes, bytes] | None:
        """Return head and body of the reply, or ``None``: then the long way answers.

        Args:
            digest: Of the request.
            server_fields: What the server says in every reply, such as the date; the same list
                for as long as they are the same.
        """
        started, now = self._clock.monotonic(), self._clock.now()
        found = self._again(digest, now) or self._first_time(digest)
        if found is None:
            return None
        repeat, entry = found
        body = self._runner.render(entry, repeat.question.shape)
        head = b"%bcache-status: stepwell; hit; ttl=%d; detail=exact\r\nage: %d\r\n%b\r\n" % (
            repeat.head,
            (entry.expires_at - now) // 1,
            max(0.0, now - entry.created_at),
            self._lines(server_fields),
        )
        self._count(repeat, entry, self._clock.monotonic() - started)
        return head, body

    def _again(self, digest: bytes, now: float) -> tuple[_Repeat, Entry] | None:
        """Return what is known of a reply, if the long way would give the same one now.

        Of what it looks at, only the time and the entry can be otherwise than they were: replies
        that depend on a source are not kept.
        """
        repeat = self._repeats.get(digest)
        if repeat is None or not repeat.since <= now < repeat.until:
            return None
        entry = self._exact.peek(repeat.key)
        if entry is None or entry.created_at != repeat.created_at:
            return None
        return repeat, entry

    def _first_time(self, digest: bytes) -> tuple[_Repeat, Entry] | None:
        """Ask the runner; keep what is known of the reply if nothing but time can change it."""
        self._repeats.pop(digest, None)
        question = self._questions.get(digest)
        served = None if question is None else self._runner.answer_now(question)
        if question is None or served is None or not isinstance(served.outcome, Hit):
            return None
        entry = served.outcome.entry
        window = fresh_window(entry, question.directives, question.request_class)
        repeat = _Repeat(
            question,
            entry.key,
            entry.created_at,
            window.since,
            window.until,
            _fixed_head(served),
            served.trail[0],
            spell(question.namespace),
        )
        if not (entry.sources or question.sources or question.request_class.sources):
            _keep(self._repeats, digest, repeat)
        return repeat, entry

    def _count(self, repeat: _Repeat, entry: Entry, seconds: float) -> None:
        question = repeat.question
        self._events.emit(
            RequestEnded(  # By position: this is made for every hit, and names cost as much again.
                _HIT,
                "exact",
                question.request_class.name,
                question.endpoint,
                question.model,
                question.upstream,
                200,
                question.shape.form is Form.SSE,
                seconds,
                seconds,
                entry.usage,
                entry.upstream_seconds,
                repeat.trail,
                repeat.tenant,
            )
        )

    def _lines(self, fields: RawHeaders) -> bytes:
        if fields is not self._server_fields:
            self._server_fields = fields
            self._server_lines = b"".join([b"%b: %b\r\n" % field for field in fields])
        return self._server_lines


_HIT = Result.HIT


def _keep(kept: dict[bytes, _T], digest: bytes, value: _T) -> None:
    """Put ``value`` where at most `MAX_REMEMBERED` are, the oldest first out."""
    if len(kept) >= MAX_REMEMBERED and digest not in kept:
        del kept[next(iter(kept))]
    kept[digest] = value


def _fixed_head(served: Served) -> bytes:
    """The fields of `stepwell.gateway.replies.header_of` that do not change with time."""
    length = len(served.body) if isinstance(served.body, bytes) else 0
    key = "" if served.key is None else served.key.hex()
    return (
        f"HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPES[served.form]}\r\nx-cache: HIT\r\n"
        f"x-stepwell-key: {key}\r\ncontent-length: {length}\r\n"
    ).encode()
