"""Which header fields travel through us, which belong to one connection only, and which to none."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stepwell.core.errors import RequestError
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

_NOT_FOR_UPSTREAM = _HOP_BY_HOP | {"accept-encoding", "content-length", "cookie", "expect", "host"}
"""Also what is ours to set, and ``cookie``, which is meant for the gateway's own host."""

_NOT_FOR_CLIENT = _HOP_BY_HOP | {"content-encoding", "content-length"}
"""Also what is true of the bytes on the upstream connection, not of the decoded body."""

_BLANKS = " \t"
"""What may stand around a value. Python strips more, and would read a coding where none is."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
"""RFC 9110, section 5.5; a line break would begin another field, or another request."""


def for_upstream(headers: Headers) -> list[tuple[str, str]]:
    """Return the fields of a caller's request that go on to a model server.

    Raises:
        RequestError: HTTP cannot carry one of them. The text does not quote its value.
    """
    passed: list[tuple[str, str]] = []
    connection: str | None = None
    for field in headers:
        name, value = field
        if name not in _NOT_FOR_UPSTREAM:
            check_field(name, value)
            passed.append(field)
        elif name == "connection":
            connection = value if connection is None else f"{connection}, {value}"
    return _less_nominated(passed, connection)


@dataclass(slots=True)
class ReplyFields:
    """What a reply's head says. Not frozen, because it is made for each; nobody changes it."""

    for_client: Headers
    """The fields that go on to the caller."""
    content_coding: str
    """In lower case; empty if the server names none."""
    transfer_coding: str


def read_reply_fields(raw: Iterable[tuple[bytes, bytes]]) -> ReplyFields:
    """Sort the fields of a model server's reply.

    Octets become characters one to one (Latin-1, as in ASGI), so that writing them out
    again gives the same octets whatever their encoding was.
    """
    passed: list[tuple[str, str]] = []
    kept_back: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in _NOT_FOR_CLIENT:
            passed.append((name, value))
        elif name in kept_back:
            kept_back[name] += f", {value}"
        else:
            kept_back[name] = value
    return ReplyFields(
        tuple(_less_nominated(passed, kept_back.get("connection"))),
        kept_back.get("content-encoding", "").strip(_BLANKS).lower(),
        kept_back.get("transfer-encoding", "").strip(_BLANKS).lower(),
    )


def check_field(name: str, value: str) -> None:
    """Check that HTTP can carry a field.

    Raises:
        RequestError: It cannot. The text does not quote the value.
    """
    if not _NAME.fullmatch(name):
        raise RequestError(f"{name!r} is no name of a header field.", code="invalid_header")
    is_plain = value.isascii() and value.isprintable()
    if not is_plain and not _VALUE.fullmatch(value):
        raise RequestError(
            f"The header field {name} holds characters that cannot be sent.", code="invalid_header"
        )


def _less_nominated(fields: list[tuple[str, str]], connection: str | None) -> list[tuple[str, str]]:
    """Leave out the fields that ``connection`` says are for this connection only."""
    if connection is None:
        return fields
    nominated = {option.strip().lower() for option in connection.split(",")}
    return [field for field in fields if field[0] not in nominated]
