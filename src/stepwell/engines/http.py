"""Any OpenAI-compatible model server, over HTTP/1.1.

What is said to it and how its replies are judged stands here. How bytes travel is a `Transport`'s
business: our own client for ``http://``, aiohttp for ``https://``.
"""

import re

from stepwell.core.errors import (
    ConfigError,
    RequestError,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.core.events import UpstreamFailed
from stepwell.core.ports import Call, EventSink, Headers
from stepwell.engines.direct_transport import DirectTransport
from stepwell.engines.fields import check_field, for_upstream, read_reply_fields
from stepwell.engines.http_address import Address, parse_base_url
from stepwell.engines.http_coding import CODINGS, Decoder
from stepwell.engines.http_reply import HttpReply
from stepwell.engines.http_session import HttpSession
from stepwell.engines.http_transport import Limits, OpenTransport, Request, Transport

_NOT_SUCCESS, _ERROR, _TOO_MANY_REQUESTS = 300, 400, 429

_NO_CODING = frozenset({"", "identity"})
_UNDONE_TRANSFER_CODINGS = frozenset({"", "chunked"})

_TARGET = re.compile(r"[!-~\x80-\xff]+")
"""Octets above ASCII should not be there, but do no harm: what they mean is the server's affair."""

_JSON = ("content-type", "application/json")
_IDENTITY = ("accept-encoding", "identity")
_DEFAULT_FIELDS = (("accept", "*/*"), ("user-agent", "stepwell"))
_SHOWN_CHARACTERS = 40
"""How much of what a server says of its reply is quoted in an error."""

_ANSWER_TYPES = frozenset({"", "application/json", "text/event-stream"})
"""Some servers leave the type out; what they send is judged where it is parsed."""


class HttpUpstream:
    """Implements `stepwell.core.ports.Upstream`; `forward` carries any other operation.

    No cookies are kept, no redirects followed, no proxies taken from the environment. What is
    retried, and why that is safe, is said at `stepwell.engines.http_session.HttpSession`.

    Safe for many tasks on one event loop. Opens no connection before the first request.
    """

    def __init__(  # noqa: PLR0913  (one keyword per setting of an upstream)
        self,
        name: str,
        base_url: str,
        *,
        identity: str,
        events: EventSink,
        api_key: str | None = None,
        connect_timeout_seconds: float = 5.0,
        first_byte_timeout_seconds: float = 600.0,
        chunk_timeout_seconds: float = 120.0,
        max_connections: int = 1_000,
        open_transport: OpenTransport | None = None,
    ) -> None:
        """Describe the server.

        Args:
            name: Name in the settings; a metric label.
            base_url: Such as ``https://api.openai.com/v1``; an operation's path is appended.
            identity: What makes its answers its own, the same after a restart.
            events: Takes an `UpstreamFailed` for every failure and every error status.
            api_key: Sent as bearer token in place of the caller's ``authorization``.
            connect_timeout_seconds: For TCP and TLS together, for each try.
            first_byte_timeout_seconds: From the start of a try, waiting for a free connection
                included, to the reply's head.
            chunk_timeout_seconds: Longest silence inside a reply's body.
            max_connections: Further requests wait for a free one.
            open_transport: Makes what carries the requests; by default the scheme decides.

        Raises:
            ConfigError: ``base_url`` is not the HTTP address of a server, or no header field can
                hold ``api_key``.
        """
        self._name = name
        self._address = parse_base_url(f"upstreams.{name}", base_url)
        self._identity = identity
        self._events = events
        self._authorization = None if api_key is None else _bearer(name, api_key)
        self._chunk_timeout_seconds = chunk_timeout_seconds
        limits = Limits(
            connect_timeout_seconds,
            first_byte_timeout_seconds,
            chunk_timeout_seconds,
            max_connections,
        )
        transport = (open_transport or _transport_for)(self._address, limits)
        self._session = HttpSession(name, transport, limits)

    @property
    def name(self) -> str:
        """Name in the settings; a metric label."""
        return self._name

    @property
    def identity(self) -> str:
        """What makes its answers its own."""
        return self._identity

    async def send(self, call: Call) -> HttpReply:
        """Send ``call`` and return when the reply's head is there.

        Raises:
            UpstreamUnreachable: No connection, after the retries that are safe.
            UpstreamConnectTimeout: No connection in time.
            UpstreamTimeout: No head in time.
            UpstreamBroken: The connection broke after the request was sent, what came is not
                HTTP, or a 2xx is neither JSON nor an event stream (a login page, say).
            RequestError: HTTP cannot carry a field, because of a line break, say.
        """
        headers = (*[field for field in call.headers if field[0] != "content-type"], _JSON)
        reply = await self.forward("POST", call.endpoint, call.query, headers, call.body)
        media_type = _media_type(reply.headers)
        if reply.status < _NOT_SUCCESS and media_type not in _ANSWER_TYPES:
            shown = media_type[:_SHOWN_CHARACTERS]
            message = f"{self._name} answered {shown}, which is neither JSON nor events"
            raise await self._refused(reply, message)
        return reply

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> HttpReply:
        """Send any request and return when the reply's head is there.

        Args:
            method: In upper case.
            path: Below ``base_url``, without a leading slash, percent-encoded.
            query: Without the question mark, percent-encoded, or empty.
            headers: Names in lower case; those meant for one connection are left out.
            body: May be empty.

        Raises:
            UpstreamUnreachable, UpstreamTimeout, UpstreamBroken: As `send`, but any type of
                content is passed on.
            RequestError: HTTP cannot carry the method, the path or a field, because of a line
                break, say. Nothing was sent.
        """
        try:
            raw = await self._session.request(self._request(method, path, query, headers, body))
        except UpstreamError as error:
            self._on_failure(error)
            raise
        fields = read_reply_fields(raw.raw_fields)
        coding = fields.content_coding
        reply = HttpReply(
            raw,
            fields.for_client,
            Decoder(coding) if coding in CODINGS else None,
            upstream=self._name,
            chunk_timeout_seconds=self._chunk_timeout_seconds,
            on_failure=self._on_failure,
        )
        if (problem := _unreadable(coding, fields.transfer_coding)) is not None:
            raise await self._refused(reply, f"{self._name} used {problem}")
        if raw.status >= _ERROR:
            self._events.emit(UpstreamFailed(self._name, _status_kind(raw.status)))
        return reply

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        await self._session.aclose()

    def _request(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Request:
        target = f"{self._address.path}/{path}{'?' if query else ''}{query}"
        if not (_TARGET.fullmatch(target) and method.isascii() and method.isalpha()):
            raise RequestError("The method or path holds characters that cannot be sent.")
        return Request(method, target, self._fields(headers), body)

    def _fields(self, headers: Headers) -> list[tuple[str, str]]:
        fields = for_upstream(headers)
        given = {name for name, _ in fields}
        if self._authorization is not None:
            if "authorization" in given:
                fields = [field for field in fields if field[0] != "authorization"]
            fields.append(self._authorization)
        fields += [field for field in _DEFAULT_FIELDS if field[0] not in given]
        # A compressing server may collect a stream's events before it sends them.
        fields.append(_IDENTITY)
        return fields

    async def _refused(self, reply: HttpReply, message: str) -> UpstreamBroken:
        await reply.aclose()
        error = UpstreamBroken(message, upstream=self._name)
        self._on_failure(error)
        return error

    def _on_failure(self, error: UpstreamError) -> None:
        self._events.emit(UpstreamFailed(self._name, _failure_kind(error)))


def _transport_for(address: Address, limits: Limits) -> Transport:
    if address.scheme == "http":
        return DirectTransport(address, limits)
    # Here, because only https needs it, and it is large.
    from stepwell.engines.aiohttp_transport import AiohttpTransport  # noqa: PLC0415

    return AiohttpTransport(address, limits)


def _bearer(name: str, api_key: str) -> tuple[str, str]:
    field = ("authorization", f"Bearer {api_key}")
    try:
        check_field(*field)
    except RequestError as error:
        raise ConfigError(f"[upstreams.{name}] the key is of no use: {error}") from error
    return field


def _unreadable(coding: str, transfer_coding: str) -> str | None:
    """Say which coding of a body cannot be undone, if one cannot."""
    if coding not in _NO_CODING and coding not in CODINGS:
        return f"content coding {_shown(coding)}, though asked for none"
    if transfer_coding not in _UNDONE_TRANSFER_CODINGS:
        return f"transfer coding {_shown(transfer_coding)}"
    return None


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])


def _media_type(headers: Headers) -> str:
    for name, value in headers:
        if name == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


def _failure_kind(error: UpstreamError) -> str:
    match error:
        case UpstreamTimeout():
            return "timeout"
        case UpstreamUnreachable():
            return "unreachable"
        case _:
            return "broken"


def _status_kind(status: int) -> str:
    if status == _TOO_MANY_REQUESTS:
        return "status_429"
    return f"status_{status // 100}xx"
