"""Any OpenAI-compatible model server, over HTTP/1.1 by aiohttp.

aiohttp brings TLS, name resolution and connection racing; it is known to this module's
helpers `http_session`, `http_reply` and `pool` only. A leaner client for plain loopback
engines would be a second implementation of `stepwell.core.ports.Upstream` beside this one.
"""

from http import HTTPStatus

from yarl import URL

from stepwell.core.errors import (
    ConfigError,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.core.events import UpstreamFailed
from stepwell.core.ports import Call, EventSink, Headers
from stepwell.engines.fields import for_upstream
from stepwell.engines.http_reply import HttpReply
from stepwell.engines.http_session import HttpSession, Limits, Request

_DECODED_CODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Content codings that aiohttp undoes without further packages."""

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
        max_connections: int = 512,
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

        Raises:
            ConfigError: ``base_url`` is not the HTTP address of a server.
        """
        self._name = name
        self._base_url = _checked_base_url(name, base_url)
        self._identity = identity
        self._events = events
        self._authorization = None if api_key is None else f"Bearer {api_key}"
        self._chunk_timeout_seconds = chunk_timeout_seconds
        self._session = HttpSession(
            name, Limits(connect_timeout_seconds, first_byte_timeout_seconds, max_connections)
        )

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
            UpstreamTimeout: No connection, or no head, in time.
            UpstreamBroken: The connection broke after the request was sent, what came is not
                HTTP, or a 2xx is neither JSON nor an event stream (a login page, say).
        """
        headers = tuple(field for field in call.headers if field[0] != "content-type")
        reply = await self.forward(
            "POST",
            call.endpoint,
            call.query,
            (*headers, ("content-type", "application/json")),
            call.body,
        )
        media_type = _media_type(reply.headers)
        if reply.status < HTTPStatus.MULTIPLE_CHOICES and media_type not in _ANSWER_TYPES:
            message = f"{self._name} answered {media_type}, which is neither JSON nor events"
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
        """
        url = URL(f"{self._base_url}/{path}{'?' if query else ''}{query}", encoded=True)
        try:
            response = await self._session.request(
                Request(method, url, self._fields(headers), body)
            )
        except UpstreamError as error:
            self._on_failure(error)
            raise
        reply = HttpReply(
            response,
            upstream=self._name,
            chunk_timeout_seconds=self._chunk_timeout_seconds,
            on_failure=self._on_failure,
        )
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in _DECODED_CODINGS:
            message = f"{self._name} used content coding {coding!r}, though asked for none"
            raise await self._refused(reply, message)
        if response.status >= HTTPStatus.BAD_REQUEST:
            self._events.emit(UpstreamFailed(self._name, _status_kind(response.status)))
        return reply

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        await self._session.aclose()

    def _fields(self, headers: Headers) -> list[tuple[str, str]]:
        fields = for_upstream(headers)
        if self._authorization is not None:
            fields = [field for field in fields if field[0] != "authorization"]
            fields.append(("authorization", self._authorization))
        # A compressing server may collect a stream's events before it sends them.
        fields.append(("accept-encoding", "identity"))
        return fields

    async def _refused(self, reply: HttpReply, message: str) -> UpstreamBroken:
        await reply.aclose()
        error = UpstreamBroken(message, upstream=self._name)
        self._on_failure(error)
        return error

    def _on_failure(self, error: UpstreamError) -> None:
        self._events.emit(UpstreamFailed(self._name, _failure_kind(error)))


def _checked_base_url(name: str, base_url: str) -> str:
    try:
        url = URL(base_url)
    except ValueError:
        url = URL()
    plain = not (url.user or url.password or url.query_string or url.fragment)
    if url.scheme not in {"http", "https"} or not url.host or not plain:
        raise ConfigError(
            f"[upstreams.{name}] base_url {base_url!r} must be http:// or https://, a host, and "
            "a path such as /v1; no credentials, no query"
        )
    return str(url).rstrip("/")


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
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "status_429"
    return f"status_{status // 100}xx"
