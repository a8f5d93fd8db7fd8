"""Which header fields pass through the gateway."""

import pytest

from stepwell.core.errors import RequestError
from stepwell.engines.fields import ReplyFields, check_field, for_upstream, read_reply_fields


def test_for_upstream_drops_what_belongs_to_the_callers_connection() -> None:
    """Framing, hop-by-hop fields, those that ``connection`` names, and cookies stay behind."""
    headers = (
        ("host", "gateway"),
        ("connection", "keep-alive, X-Private"),
        ("connection", "x-other"),
        ("keep-alive", "timeout=5"),
        ("x-private", "1"),
        ("x-other", "1"),
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("cookie", "session=1"),
        ("accept-encoding", "br"),
        ("authorization", "Bearer key"),
        ("x-twice", "1"),
        ("x-twice", "2"),
    )
    assert for_upstream(headers) == [
        ("authorization", "Bearer key"),
        ("x-twice", "1"),
        ("x-twice", "2"),
    ]


def test_reply_fields_go_on_without_framing() -> None:
    """The decoded body goes on without the lengths and codings it had on the wire."""
    raw = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"3"),
        (b"Content-Encoding", b"GZip"),
        (b"Transfer-Encoding", b"Chunked"),
        (b"Connection", b"X-Hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Retry-After", b"7"),
    ]
    assert read_reply_fields(raw) == ReplyFields(
        (("content-type", "application/json"), ("retry-after", "7")), "gzip", "chunked"
    )


def test_repeated_codings_are_all_seen() -> None:
    """A second field is not hidden behind the first."""
    raw = [(b"content-encoding", b"identity"), (b"Content-Encoding", b"gzip")]
    assert read_reply_fields(raw) == ReplyFields((), "identity, gzip", "")


def test_reply_fields_keep_every_octet() -> None:
    """A value in any encoding comes out as the octets it came in."""
    value = "Zürich".encode() + b"\xff"
    [(_, text)] = read_reply_fields([(b"X-Org", value)]).for_client
    assert text.encode("latin-1") == value


@pytest.mark.parametrize("value", ["", "plain", "a\tb", "a b", "Zürich", "\xa0\xff"])
def test_values_that_http_can_carry_pass(value: str) -> None:
    """Visible characters, blanks between them, and octets above ASCII."""
    check_field("x-name", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "v"),
        ("a b", "v"),
        ("a:", "v"),
        ("A", "v"),
        ("é", "v"),
        ("a", "\n"),
        ("a", "é\r"),
        ("a", "€"),
    ],
)
def test_fields_that_http_cannot_carry_are_refused(name: str, value: str) -> None:
    """A line break would begin another field; the error names the field only."""
    with pytest.raises(RequestError):
        check_field(name, value)


@pytest.mark.parametrize("around", [b"\x0b", b"\x1f", b"\x85", b"\xa0", b"\r\n "])
def test_a_coding_is_what_the_parser_takes_for_one(around: bytes) -> None:
    """Python would strip more than HTTP does: chunks nobody has undone would pass for the body."""
    fields = read_reply_fields([(b"transfer-encoding", b"chunked" + around)])
    assert fields.transfer_coding != "chunked"
    fields = read_reply_fields([(b"transfer-encoding", b" \tchunked\t ")])
    assert fields.transfer_coding == "chunked"
