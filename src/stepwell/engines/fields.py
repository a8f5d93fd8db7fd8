"""Which header fields travel through us, and which belong to one connection only."""

from collections.abc import Iterable

from stepwell.core.ports import Headers

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, section 7.6.1, with the obsolete names that servers still send."""

_REQUEST_FRAMING = frozenset({"accept-encoding", "content-length", "cookie", "expect", "host"})
"""Ours to set, or (``cookie``) meant for the gateway's own host."""

_REPLY_FRAMING = frozenset({"content-encoding", "content-length"})
"""True of the bytes on the upstream connection, not of the decoded body that is passed on."""


def for_upstream(headers: Headers) -> list[tuple[str, str]]:
    """Return the fields of a caller's request that go on to a model server."""
    nominated = _nominated(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in _HOP_BY_HOP and name not in _REQUEST_FRAMING and name not in nominated
    ]


def for_client(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the fields of a model server's reply that go on to the caller.

    Octets become characters one to one (Latin-1, as in ASGI), so that writing them out
    again gives the same octets whatever their encoding was.
    """
    headers = tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw
    )
    nominated = _nominated(headers)
    return tuple(
        (name, value)
        for name, value in headers
        if name not in _HOP_BY_HOP and name not in _REPLY_FRAMING and name not in nominated
    )


def _nominated(headers: Headers) -> frozenset[str]:
    """Return the field names that ``connection`` says are for this connection only."""
    return frozenset(
        option.strip().lower()
        for name, value in headers
        if name == "connection"
        for option in value.split(",")
    )
