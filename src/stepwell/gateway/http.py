"""The little of ASGI the gateway's own endpoints need."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from stepwell.core.errors import RequestError
from stepwell.core.ports import Headers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_TOO_LARGE = 413
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


def header_fields(scope: Scope) -> dict[str, str]:
    """Return the request's fields by lower-case name; repeated ones joined (RFC 9110, 5.3)."""
    fields: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1").strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Return the request's body.

    Raises:
        RequestError: 413, it is larger than ``max_bytes``.
        ClientLeft: There will be no more of it.
    """
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        f"The request body is larger than {max_bytes} bytes (server.max_body_bytes).",
        status=_TOO_LARGE,
        code="request_too_large",
    )


def sendable(fields: Headers) -> Headers:
    """Leave out fields with control characters, which must not be sent on (RFC 9110, 5.5).

    Model servers are read more leniently than replies are written: a field more or less is no
    reason to lose an answer. ``Date`` is the server's to write, and must stand there once.
    """
    return tuple(
        field for field in fields if field[0] != "date" and not _CONTROL_CHARACTER.search(field[1])
    )


async def send_head(send: Send, status: int, fields: Headers) -> None:
    """Send the status and the header fields."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_whole(send: Send, status: int, fields: Headers, body: bytes) -> None:
    """Send a reply whose body is here."""
    await send_head(send, status, (*fields, ("content-length", str(len(body)))))
    await send({"type": "http.response.body", "body": body, "more_body": False})
