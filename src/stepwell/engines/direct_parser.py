"""From the bytes of a connection to replies: framing and bounds, no I/O.

llhttp, by httptools, knows HTTP's grammar and is strict about framing: no bare line feeds, no two
lengths, no length beside chunks. About values of fields it is told to be lenient: a control
character in one is no reason to lose an answer. What it does not know is which request a reply
belongs to, when a head is too long, and that the end of a connection may be the end of a body.
"""

from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD_BYTES = 65_536
"""Of a reply's head. Also of whatever else comes without a byte of body: a run of interim
replies, extensions of chunks, trailers."""

_SUCCESS = 200
_CONTINUE = 100
_BLANKS = b" \t"
"""Around a value they mean nothing; httptools leaves those behind it."""
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class NotHttp(Exception):
    """What came is not a reply in HTTP/1.1, or exceeds a bound. Quotes none of it."""


class Sink(Protocol):
    """Takes a reply as it comes."""

    def begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Take the head."""
        ...

    def feed(self, data: bytes) -> None:
        """Take a piece of the body, which is not empty."""
        ...

    def finish(self) -> None:
        """The body is complete."""
        ...


class ReplyParser:
    """Parses the replies that come over one connection, one after the other.

    Interim replies (1xx) and trailers are left out. A reply to ``HEAD`` ends with its head.

    Attributes:
        complete: The reply has come to its end.
        reusable: It has, the server keeps the connection, and nothing followed that nobody asked
            for.
    """

    def __init__(self) -> None:
        """Expect nothing yet: call `expect` before `feed`."""
        self.complete = True
        self.reusable = False
        self._http = HttpResponseParser(self)
        self._http.set_dangerous_leniencies(lenient_headers=True)
        self._sink: Sink
        self._fields: list[tuple[bytes, bytes]] = []
        self._is_head = False
        self._has_head = False
        self._barren_bytes = 0
        """Come since the request, the head, or the last byte of body."""

    def expect(self, sink: Sink, *, is_head: bool) -> None:
        """Give the next reply to ``sink``. It answers a ``HEAD`` request if ``is_head``."""
        self.complete = self.reusable = self._has_head = False
        self._sink = sink
        self._fields = []
        self._is_head = is_head
        self._barren_bytes = 0

    @property
    def untouched(self) -> bool:
        """Whether no byte of the reply has come."""
        return self._barren_bytes == 0 and not self._has_head

    def feed(self, data: bytes) -> None:
        """Take what came next.

        Raises:
            NotHttp: It is no reply, or too long a head. The sink may have got a part.
        """
        room = MAX_HEAD_BYTES - self._barren_bytes
        if len(data) <= room:
            self._feed(data)
            return
        rest = memoryview(data)
        while rest and not self.complete:
            room = MAX_HEAD_BYTES - self._barren_bytes
            self._feed(rest[:room])
            rest = rest[room:]
        if rest:
            self.reusable = False

    def end(self) -> bool:
        """Note the orderly end of the connection; return whether the reply is complete by it."""
        # RFC 9112, section 6.3: a body of no stated length lasts as long as the connection.
        if (
            self._has_head
            and not self.complete
            and _FRAMING.isdisjoint(name.lower() for name, _ in self._fields)
        ):
            self._finish()
        return self.complete

    # What httptools calls. An exception stops it for good, and comes out of `feed_data` as its own.

    def on_message_begin(self) -> None:
        """See a reply begin; one behind a complete reply is nobody's."""
        if self.complete:
            raise NotHttp("this was not asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head."""
        if b"\0" in value:  # RFC 9110, section 5.5: the one such character to be refused
            raise NotHttp("a field is impossible")
        if not self._has_head:
            self._fields.append((name.rstrip(), value.rstrip(_BLANKS)))

    def on_headers_complete(self) -> None:
        """Hand on the head, unless it is an interim one."""
        status = self._http.get_status_code()
        if status < _SUCCESS:
            if status < _CONTINUE:
                raise NotHttp("its status is impossible")
            self._fields = []
            return
        self._has_head = True
        self._barren_bytes = 0
        self._sink.begin(status, self._fields)
        if self._is_head:
            self._finish()
            raise NotHttp("its body does not come")

    def on_body(self, data: bytes) -> None:
        """Hand on a piece of the body."""
        self._barren_bytes = 0
        self._sink.feed(data)

    def on_message_complete(self) -> None:
        """Hand on the end, unless it is an interim reply's."""
        if self._has_head:
            self._finish()
            self.reusable = self._http.should_keep_alive()

    def _finish(self) -> None:
        self.complete = True
        self._sink.finish()

    def _feed(self, data: bytes | memoryview) -> None:
        self._barren_bytes += len(data)
        try:
            self._http.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.reusable = False
            if not self.complete:
                raise NotHttp("what came is not HTTP") from None
        if self._barren_bytes >= MAX_HEAD_BYTES and not self.complete:
            raise NotHttp("what came is too long for a head")
