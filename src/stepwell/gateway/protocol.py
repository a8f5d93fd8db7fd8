"""Uvicorn's HTTP protocol with a short way for repeats, and with deadlines.

Uvicorn starts a task for a request as soon as its header is there. Here a request that may be a
repeat is held until its body is there, too, which for almost all requests is in the same read;
then it is answered at once, or goes the ordinary way as if nothing had been. A read that brings
exactly the bytes of a request that was answered so before is not even parsed.

What is no request is refused in OpenAI's form, after the answers to the requests before it.
"""

import asyncio
import hashlib
import socket
from typing import Any, Protocol

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint
from stepwell.gateway.drain import Drain
from stepwell.gateway.hot import DIGEST, HotPath
from stepwell.wire.errors import error_body

MAX_HELD_BYTES = 1 << 20
"""A request with a larger body goes the ordinary way."""

MAX_KNOWN_BYTES = 32 << 10
"""A longer request is parsed each time."""

MAX_HEAD_BYTES = 64 << 10
"""A head that is longer, or chunks with that much around them, are refused with 431. Bytes that
share a read with something else are not counted: up to 256 KiB more may pass."""

LINGER_SECONDS = 1.0
"""How long a refused client may go on sending. Closed at once, its connection would be reset, and
many a client would see that before it sees the reply."""

_TARGETS = frozenset(f"/v1/{endpoint}".encode() for endpoint in (*Endpoint, "embeddings"))


class _NoFields(list[tuple[bytes, bytes]]):
    """Where a chunked body's trailer goes: its fields are none of the head's (RFC 9110, 6.5.1)."""

    def append(self, field: tuple[bytes, bytes], /) -> None:
        """Drop ``field``."""


class HotApplication(Protocol):
    """What the protocol asks of the ASGI application it serves."""

    @property
    def hot(self) -> HotPath:
        """Answers repeats."""
        ...

    @property
    def request_timeout_seconds(self) -> float:
        """How long a request may take to arrive, and a reply to be read."""
        ...

    @property
    def drain(self) -> Drain:
        """Whether the server is about to stop."""
        ...


class GatewayProtocol(HttpToolsProtocol):
    """One connection. Uvicorn keeps its limits, TLS, keep-alive and shutdown."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        app: HotApplication = config.loaded_app
        self._hot = app.hot
        self._drain = app.drain
        self._patience_seconds = app.request_timeout_seconds
        self._held: list[bytes] | None = None
        """Pieces of the body of a request that may be a repeat; ``None``: there is none such."""
        self._held_bytes = 0
        self._running: RequestResponseCycle | None = None
        """What the application has; ``cycle`` is the newest, which may still have to wait."""
        self._begun = 0
        """Requests that began with the bytes that were received last,"""
        self._answered: bytes | None = None
        """and the digest of the last one that was a repeat."""
        self._idle_since = self.loop.time()
        self._arriving_since: float | None = None
        """When the request began whose end is not here yet."""
        self._unread_bytes = 0
        """What the client left unread when the clock was last looked at,"""
        self._unread_since = self._idle_since
        """and since when it has been as much."""
        self._stray_bytes = 0
        """Bytes received since the last piece of a body, or end of a head or request."""
        self._upgrade_offered = False
        self._deaf = False
        """Nothing the client sends is read any more."""
        self._stops = False
        """The server stops; what is arriving is the last request."""
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch the clock, too."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock.family != socket.AF_UNIX:
            # A head and its body are two writes: with Nagle's algorithm the second would wait for
            # the client's delayed acknowledgement, 40 ms. asyncio turns it off only where the
            # listening socket was made with IPPROTO_TCP, which few are.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._look_at_the_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching, and let the application know."""
        if self._watch is not None:
            self._watch.cancel()
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection, once what the client has begun to send is answered."""
        self._stops = True
        if self._arriving_since is None or self._is_answering():
            super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        if self._is_closing() and not self.pipeline:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def _is_closing(self) -> bool:
        """Return whether the client is to be told to take its next request elsewhere."""
        return self._stops or self._drain.is_under_way

    def data_received(self, data: bytes) -> None:
        """Read requests."""
        self._unset_keepalive_if_required()
        wire = None
        if len(data) <= MAX_KNOWN_BYTES and self._is_between_requests():
            wire = hashlib.sha256(data).digest()
            digest = self._hot.digest_read(wire)
            if digest is not None and self._answer(digest):
                self._idle_since = self.loop.time()
                self._stray_bytes = 0
                return
        self._begun, self._answered = 0, None
        self._parse(data)
        is_one_request = self._begun == 1 and self._arriving_since is None and not self._deaf
        if wire is not None and is_one_request and self._answered is not None:
            self._hot.note_read(wire, self._answered)

    def _is_between_requests(self) -> bool:
        """Return whether what comes next begins a request, and all before it are answered."""
        return not self._is_answering() and self._arriving_since is None and not self._deaf

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _parse(self, data: bytes) -> None:
        self._stray_bytes += len(data)
        rest = memoryview(data)
        try:
            while rest and not self._deaf:
                rest = self._feed(rest)
        except httptools.HttpParserError:
            self._turn_away(_NOT_HTTP)
        if self._arriving_since is not None and self._stray_bytes > MAX_HEAD_BYTES:
            self._turn_away(_TOO_LONG)

    def _feed(self, data: memoryview) -> memoryview:
        """Have ``data`` read; return what is still to be read."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._read_again_without_upgrade()
            return data[offer.args[0] :]
        return data[:0]

    def on_message_begin(self) -> None:
        """Note when the request began."""
        super().on_message_begin()
        self._begun += 1
        self._arriving_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """Hold a request that may be a repeat; start any other."""
        self._stray_bytes = 0
        self.headers = _NO_FIELDS
        if self.parser.should_upgrade():
            self._upgrade_offered = True
            return
        if (
            not self._is_answering()
            and self.url.partition(b"?")[0] in _TARGETS
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
        ):
            self._held = []
            self._held_bytes = 0
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hold a piece of the body, or pass it on."""
        self._stray_bytes = 0
        if self._held is None:
            super().on_body(body)
            return
        self._held.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > MAX_HELD_BYTES:
            self._go_the_ordinary_way()

    def on_message_complete(self) -> None:
        """Answer a repeat, or let the request go on."""
        if self._upgrade_offered:
            return
        self._arriving_since = None
        self._stray_bytes = 0
        self._idle_since = self.loop.time()
        if self._held is not None:
            digest = self._hot.digest(self.url, self.scope["headers"], b"".join(self._held))
            if self._answer(digest):
                self._held = None
                self._answered = digest
                return
            self.scope[DIGEST] = digest  # type: ignore[literal-required]
            self._go_the_ordinary_way()
        super().on_message_complete()

    def _answer(self, digest: bytes) -> bool:
        if self.flow.write_paused or self._is_closing():
            return False
        reply = self._hot.answer(digest, self.server_state.default_headers)
        if reply is None:
            return False
        self.transport.writelines(reply)
        self.server_state.total_requests += 1
        return True

    def _go_the_ordinary_way(self) -> None:
        """Hand what was held to the application, as if it had just come."""
        held, self._held = self._held or [], None
        super().on_headers_complete()
        for piece in held:
            super().on_body(piece)

    def _read_again_without_upgrade(self) -> None:
        """Take a request that offers another protocol for one that does not (RFC 9110, 7.8).

        httptools drops the body of such a request, and every Java client offers HTTP/2:
        https://github.com/MagicStack/httptools/issues/124.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._turn_away(_NOT_HTTP)
            return
        lines = [b"%b %b HTTP/%b\r\n" % (method, self.url, version)]
        if not self.parser.should_keep_alive():
            lines.append(b"connection: close\r\n")
        fields = (field for field in self.scope["headers"] if field[0] not in _OF_UPGRADES)
        lines += [b"%b: %b\r\n" % field for field in fields]
        self._upgrade_offered = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # As uvicorn does.
        self.parser.feed_data(b"".join((*lines, b"\r\n")))

    def _turn_away(self, error: RequestError) -> None:
        """Refuse what is arriving and read no more."""
        if self._deaf:
            return
        self._deaf = True
        cycle = self.cycle
        is_begun = self._arriving_since is not None and cycle is not None
        if is_begun and cycle.scope is self.scope:
            # The application has it, and waits for the rest.
            if cycle.response_started or self.pipeline:
                self.transport.close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False  # Closes the connection once all before it are answered.
            return
        self._reply_and_hang_up(*error_body(error))

    def _reply_and_hang_up(self, status: int, body: bytes) -> None:
        head = (
            b"content-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        self.transport.writelines([STATUS_LINE[status], head, body])
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def _look_at_the_clock(self) -> None:
        """Close a connection whose client has been silent, or has not read, for too long."""
        now, patience = self.loop.time(), self._patience_seconds
        self._watch = self.loop.call_later(patience / 4, self._look_at_the_clock)
        answering = self._is_answering()
        if answering:
            self._idle_since = now
        unread_bytes = self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        if unread_bytes == 0 or unread_bytes != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread_bytes, now
        if now - self._unread_since > patience:
            self.transport.abort()
        elif self._arriving_since is not None:
            # While earlier requests are answered, it may be us who do not read on.
            earlier = answering and (self.cycle.scope is not self.scope or bool(self.pipeline))
            if not earlier and now - self._arriving_since > patience:
                self._turn_away(self._too_slow())
        elif not answering and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    def _too_slow(self) -> RequestError:
        return RequestError(
            f"The request was not complete after {self._patience_seconds:g} seconds"
            " (server.request_timeout_seconds).",
            status=408,
            code="request_timeout",
        )


_NO_FIELDS = _NoFields()
_OF_UPGRADES = frozenset({b"connection", b"http2-settings", b"upgrade"})
_NOT_HTTP = RequestError("This is not a request in HTTP/1.1.", code="bad_http")
_TOO_LONG = RequestError(
    f"The request's header fields are longer than {MAX_HEAD_BYTES} bytes.",
    status=431,
    code="header_too_large",
)
