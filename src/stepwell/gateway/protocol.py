"""Uvicorn's HTTP protocol with a short way for repeats, and with deadlines.

Uvicorn starts a task for a request as soon as its header is there. Here a request that may be a
repeat is held until its body is there, too, which for almost all requests is in the same read;
then it is answered at once, or goes the ordinary way as if nothing had been.
"""

import asyncio
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint
from stepwell.gateway.hot import HotPath
from stepwell.wire.errors import error_body

MAX_HELD_BYTES = 1 << 20
"""A request with a larger body goes the ordinary way."""

_TARGETS = frozenset(f"/v1/{endpoint}".encode() for endpoint in Endpoint)


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
        self._patience_seconds = app.request_timeout_seconds
        self._held: list[bytes] | None = None
        """Pieces of the body of a request that may be a repeat; ``None``: there is none such."""
        self._held_bytes = 0
        self._waiting_since: float | None = None
        """Since when the client has owed us something: the rest of a request, or to read."""
        self._idle_since = self.loop.time()
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch the clock, too."""
        super().connection_made(transport)
        self._look_at_the_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Note when the request began."""
        super().on_message_begin()
        self._waiting_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """Hold a request that may be a repeat; start any other."""
        quiet = self.cycle is None or self.cycle.response_complete
        if (
            quiet
            and self.url.partition(b"?")[0] in _TARGETS
            and self.parser.get_method() == b"POST"
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
        ):
            self._held = []
            self._held_bytes = 0
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hold a piece of the body, or pass it on."""
        if self._held is None:
            super().on_body(body)
            return
        self._held.append(body)
        self._held_bytes += len(body)
        if self._held_bytes > MAX_HELD_BYTES:
            self._go_the_ordinary_way()

    def on_message_complete(self) -> None:
        """Answer a repeat, or let the request go on."""
        self._waiting_since = None
        self._idle_since = self.loop.time()
        if self._held is not None:
            if self._answer(b"".join(self._held)):
                self._held = None
                return
            self._go_the_ordinary_way()
        super().on_message_complete()

    def _answer(self, body: bytes) -> bool:
        if self.flow.write_paused:
            return False
        digest = self._hot.digest(self.url, self.headers, body)
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

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in OpenAI's form."""
        error = RequestError(msg, code="bad_http")
        self._refuse(*error_body(error))

    def _refuse(self, status: int, body: bytes) -> None:
        head = (
            b"content-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        self.transport.writelines([STATUS_LINE[status], head, body])
        self.transport.close()

    def _look_at_the_clock(self) -> None:
        """Close a connection whose client has been silent, or has not read, for too long."""
        now = self.loop.time()
        self._watch = self.loop.call_later(self._patience_seconds / 4, self._look_at_the_clock)
        if self.flow.write_paused:
            self._waiting_since = self._waiting_since or now
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._waiting_since is not None:
            if now - self._waiting_since > self._patience_seconds:
                self._give_up(answering=answering)
        elif not answering and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    def _give_up(self, *, answering: bool) -> None:
        if answering:
            self.transport.abort()
            return
        error = RequestError(
            f"The request was not complete after {self._patience_seconds:g} seconds"
            " (server.request_timeout_seconds).",
            status=408,
            code="request_timeout",
        )
        self._refuse(*error_body(error))
