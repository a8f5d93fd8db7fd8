"""From bytes to replies, wherever the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.engines.direct_parser import MAX_HEAD_BYTES, NotHttp, ReplyParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


class Seen:
    """What a parser handed on."""

    def __init__(self) -> None:
        self.heads: list[tuple[int, list[tuple[bytes, bytes]]]] = []
        self.body = b""
        self.ends = 0

    def begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        self.heads.append((status, fields))

    def feed(self, data: bytes) -> None:
        assert data
        self.body += data

    def finish(self) -> None:
        self.ends += 1


def parse(*pieces: bytes, is_head: bool = False) -> tuple[ReplyParser, Seen]:
    parser, seen = ReplyParser(), Seen()
    parser.expect(seen, is_head=is_head)
    for piece in pieces:
        parser.feed(piece)
    return parser, seen


def cut(data: bytes, places: set[int]) -> list[bytes]:
    ends = [0, *sorted(place for place in places if 0 < place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(ends)]


REPLIES = [
    (OK + b"content-length: 5\r\nX-A: 1\r\n\r\nhello", b"hello"),
    (CHUNKED + b"2;ext\r\nhe\r\n3\r\nllo\r\n0\r\nx-trailer: 1\r\n\r\n", b"hello"),
    (b"HTTP/1.1 100 Continue\r\nx: 1\r\n\r\n" + OK + b"content-length: 5\r\n\r\nhello", b"hello"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
]


@given(st.sampled_from(REPLIES), st.sets(st.integers(0, 120)))
def test_reply_is_the_same_wherever_it_is_cut(reply: tuple[bytes, bytes], places: set[int]) -> None:
    """One head, the whole body, one end, and a connection that can go on."""
    data, body = reply
    parser, seen = parse(*cut(data, places))
    assert (len(seen.heads), seen.body, seen.ends) == (1, body, 1)
    assert (parser.complete, parser.reusable) == (True, True)
    assert seen.heads == parse(data)[1].heads


@given(st.sampled_from(REPLIES), st.integers(1, 120))
def test_reply_is_not_complete_before_its_last_byte(
    reply: tuple[bytes, bytes], missing: int
) -> None:
    """Nor does the end of the connection complete it."""
    data, _ = reply
    parser, seen = parse(data[: max(0, len(data) - missing)])
    assert (parser.complete, parser.end(), seen.ends) == (False, False, 0)


@given(st.sampled_from(REPLIES), st.binary(min_size=1, max_size=40))
def test_whatever_follows_a_reply_ends_its_connection(
    reply: tuple[bytes, bytes], more: bytes
) -> None:
    """It changes nothing of the reply. Empty lines are nobody's and may be passed over."""
    data, body = reply
    parser, seen = parse(data + more)
    assert (len(seen.heads), seen.body, seen.ends) == (1, body, 1)
    assert parser.complete
    if more.strip(b"\r\n"):
        assert not parser.reusable


def test_however_much_follows_a_reply() -> None:
    """Most of it is not even looked at."""
    parser, seen = parse(REPLIES[0][0] + REPLIES[0][0] * 5_000)
    assert (len(seen.heads), seen.ends, parser.reusable) == (1, 1, False)


def test_replies_follow_each_other() -> None:
    """A parser serves its connection for life; each reply gets what is its own."""
    parser = ReplyParser()
    for body in (b"one", b"", b"three"):
        seen = Seen()
        parser.expect(seen, is_head=False)
        assert parser.untouched
        parser.feed(OK + b"content-length: %d\r\nx-body: %b\r\n\r\n%b" % (len(body), body, body))
        assert (seen.body, seen.ends) == (body, 1)
        assert seen.heads[0][1][1] == (b"x-body", body)
        assert not parser.untouched


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"x: a\x01b", (b"x", b"a\x01b")),
        (b"x:  a\tb ", (b"x", b"a\tb")),
        (b"x: \xff", (b"x", b"\xff")),
        (b"x:", (b"x", b"")),
        (b"x: a\r\n b", (b"x", b"a b")),
        (b"transfer-encoding : chunked", (b"transfer-encoding", b"chunked")),
    ],
)
def test_odd_fields_are_read(line: bytes, field: tuple[bytes, bytes]) -> None:
    """They were meant well, and what they say of the framing is obeyed."""
    _, seen = parse(OK + line + b"\r\n\r\n")
    assert seen.heads == [(200, [field])]


@pytest.mark.parametrize(
    "line",
    [
        b"x: a\0b",
        b"x: a\nb: c",
        b"x: a\rb: c",
        b"x y: a",
        b": a",
        b"no colon",
        b"content-length: 2\r\ncontent-length: 2",
        b"content-length: 2\r\n 3",
        b"content-length: +2",
        b"content-length: \x012",
        b"content-length: 2\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 2",
    ],
)
def test_fields_that_can_be_read_in_two_ways_are_refused(line: bytes) -> None:
    """Of lengths in particular there is one, and it is a number."""
    with pytest.raises(NotHttp):
        parse(OK + line + b"\r\n\r\n")


def test_connection_that_ends_may_end_a_body() -> None:
    """One of no stated length does; then there is nothing to use again."""
    parser, seen = parse(OK + b"x: 1\r\n\r\nhel", b"lo")
    assert not parser.complete
    assert parser.end()
    assert (seen.body, seen.ends, parser.reusable) == (b"hello", 1, False)


def test_reply_to_head_has_no_body() -> None:
    """It is complete with its head, and what a confused server sends behind it is not read."""
    parser, seen = parse(OK + b"content-length: 5\r\n\r\nhello", is_head=True)
    assert (parser.complete, parser.reusable) == (True, False)
    assert (seen.body, seen.ends) == (b"", 1)


@pytest.mark.parametrize("body", [b"", b"x" * 300_000], ids=["alone", "with a body"])
def test_bound_of_a_head_is_exact(body: bytes) -> None:
    """However the head came, and whatever came with it."""
    rest = OK + b"content-length: %d\r\nx: \r\n\r\n" % len(body)
    longest = MAX_HEAD_BYTES - len(rest)
    head = rest.replace(b"x: ", b"x: " + b"v" * longest)
    _, seen = parse(head + body)
    assert seen.body == body
    with pytest.raises(NotHttp, match="too long"):
        parse(rest.replace(b"x: ", b"x: " + b"v" * (longest + 1)) + body)
    with pytest.raises(NotHttp, match="too long"):
        parse(*[b"HTTP/1.1 100 Continue\r\n\r\n"] * 3_000)


@pytest.mark.parametrize("start", [b"3;", b"0\r\nx: "], ids=["extension", "trailer"])
def test_what_is_no_body_is_bounded(start: bytes) -> None:
    """So that a server that sends on for ever, and no answer, is not listened to for ever."""
    with pytest.raises(NotHttp, match="too long"):
        parse(CHUNKED + b"3\r\nabc\r\n" + start, *[b"v" * 10_000] * 7)


def test_bodies_are_not_bounded() -> None:
    """They are passed on, so their size is no concern here."""
    pieces = [b"20000\r\n" + bytes(0x20000) + b"\r\n"] * 20
    parser, seen = parse(CHUNKED, *pieces, b"0\r\n\r\n")
    assert (len(seen.body), parser.reusable) == (20 * 0x20000, True)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_none(data: bytes) -> None:
    """Nothing else comes out of the parser than its own error."""
    try:
        _, seen = parse(data)
    except NotHttp:
        return
    assert len(seen.heads) <= 1
