"""The hot path: a repeat of a request is answered in the protocol's callback, from memory.

What makes a request a repeat is the digest of its raw bytes: target, the header fields that
matter, body. What stands behind it is kept by `stepwell.pipeline.repeats`: so nothing is parsed,
keyed, judged or written a second time. Where even the bytes on the wire are the same, from the
first to the last, they are not read as HTTP again either: they can only come to the same digest.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from stepwell.core.clock import Clock
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.gateway.replies import CONTENT_TYPES, groups_of
from stepwell.pipeline.intake import KEYED_HEADERS
from stepwell.pipeline.question import Question
from stepwell.pipeline.repeats import Repeats, keep
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.served import Served
from stepwell.wire.cache_groups import GROUPS

DIGEST = "stepwell.digest"
"""Where the ASGI scope has the digest of a request that the hot path could not answer yet."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""

_ALWAYS = (b"authorization", b"cache-control", *[name.encode() for name in KEYED_HEADERS])
_OURS = b"x-stepwell-"


class VectorRepeats(Protocol):
    """Answers repeats of requests for vectors."""

    def answer(self, digest: bytes) -> bytes | None:
        """Return the body of the reply to what has this digest, and count it; or ``None``."""
        ...


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
        vectors: VectorRepeats | None = None,
    ) -> None:
        self._vectors = vectors
        self._clock = clock
        self._repeats = Repeats(runner, exact, clock=clock, events=events, head_of=_fixed_head)
        self._relevant = frozenset({*_ALWAYS, *[name.encode() for name in extra_headers]})
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
        keep(self._read, wire, digest)

    def remember(self, digest: bytes, question: Question) -> None:
        """Note what a request with this digest asks. Questions that bypass are not noted."""
        self._repeats.remember(digest, question)

    def answer(self, digest: bytes, server_fields: RawHeaders) -> tuple[bytes, bytes] | None:
        """Return head and body of the reply, or ``None``: then the long way answers.

        Args:
            digest: Of the request.
            server_fields: What the server says in every reply, such as the date; the same list
                for as long as they are the same.
        """
        started, now = self._clock.monotonic(), self._clock.now()
        found = self._repeats.find(digest, now)
        if found is None:
            return None if self._vectors is None else self._answer_vectors(digest, server_fields)
        repeat, entry = found
        body = self._repeats.body_of(repeat, entry)
        head = b"%bcache-status: stepwell; hit; ttl=%d; detail=exact\r\nage: %d\r\n%b\r\n" % (
            repeat.head,
            (entry.expires_at - now) // 1,
            max(0.0, now - entry.created_at),
            self._lines(server_fields),
        )
        self._repeats.count(repeat, entry, self._clock.monotonic() - started)
        return head, body

    def _answer_vectors(
        self, digest: bytes, server_fields: RawHeaders
    ) -> tuple[bytes, bytes] | None:
        body = None if self._vectors is None else self._vectors.answer(digest)
        if body is None:
            return None
        return _VECTORS_HEAD % (len(body), self._lines(server_fields)), body

    def _lines(self, fields: RawHeaders) -> bytes:
        if fields is not self._server_fields:
            self._server_fields = fields
            self._server_lines = b"".join([b"%b: %b\r\n" % field for field in fields])
        return self._server_lines


_VECTORS_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b"cache-status: stepwell; hit; detail=embedding\r\nx-cache: HIT\r\n"
    b"content-length: %d\r\n%b\r\n"
)


def _fixed_head(served: Served) -> bytes:
    """The fields of `stepwell.gateway.replies.header_of` that do not change with time."""
    length = len(served.body) if isinstance(served.body, bytes) else 0
    key = "" if served.key is None else served.key.hex()
    groups = groups_of(served)
    return (
        f"HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPES[served.form]}\r\nx-cache: HIT\r\n"
        f"x-stepwell-key: {key}\r\ncontent-length: {length}\r\n"
        + (f"{GROUPS}: {groups}\r\n" if groups else "")
    ).encode()
