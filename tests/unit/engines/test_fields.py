"""Which header fields pass through the gateway."""

from stepwell.engines.fields import for_client, for_upstream


def test_for_upstream_drops_what_belongs_to_the_callers_connection() -> None:
    """Framing, hop-by-hop fields, those that ``connection`` names, and cookies stay behind."""
    headers = (
        ("host", "gateway"),
        ("connection", "keep-alive, X-Private"),
        ("keep-alive", "timeout=5"),
        ("x-private", "1"),
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


def test_for_client_lowers_names_and_drops_framing() -> None:
    """The decoded body goes on without the lengths and codings it had on the wire."""
    raw = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"3"),
        (b"Content-Encoding", b"gzip"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"X-Hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Retry-After", b"7"),
    ]
    assert for_client(raw) == (("content-type", "application/json"), ("retry-after", "7"))


def test_for_client_keeps_every_octet() -> None:
    """A value in any encoding comes out as the octets it came in."""
    value = "Zürich".encode() + b"\xff"
    [(_, text)] = for_client([(b"X-Org", value)])
    assert text.encode("latin-1") == value
