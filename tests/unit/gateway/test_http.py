"""The little of ASGI that the gateway's own endpoints need."""

from collections.abc import Iterable

import pytest

from stepwell.core.errors import RequestError
from stepwell.gateway.http import (
    ClientLeft,
    Message,
    Receive,
    header_fields,
    read_body,
    send_whole,
    sendable,
)


def receiving(*messages: Message) -> Receive:
    """Return what hands out messages one after the other."""
    rest = iter(messages)

    async def receive() -> Message:
        return next(rest)

    return receive


def pieces(*bodies: bytes) -> Iterable[Message]:
    """Return the messages of a body."""
    for number, body in enumerate(bodies, 1):
        yield {"type": "http.request", "body": body, "more_body": number < len(bodies)}


def scope(*headers: tuple[bytes, bytes]) -> Message:
    """Return a scope with header fields."""
    return {"headers": list(headers)}


def test_repeated_fields_are_joined() -> None:
    """RFC 9110 (5.3): in order, by commas; blanks around a value are not part of it."""
    fields = header_fields(scope((b"a", b" 1 "), (b"b", b"x"), (b"a", b"2"), (b"c", b"\xfc")))
    assert fields == {"a": "1, 2", "b": "x", "c": "ü"}


@pytest.mark.parametrize("bodies", [[b""], [b"abc"], [b"a", b"", b"bc"]])
async def test_a_body_is_read_to_its_end(bodies: list[bytes]) -> None:
    """In however many pieces."""
    read = await read_body(scope(), receiving(*pieces(*bodies)), max_bytes=3)
    assert read == b"".join(bodies)


@pytest.mark.parametrize(
    ("headers", "bodies"),
    [([(b"content-length", b"4")], []), ([], [b"abcd"]), ([], [b"ab", b"cd", b"never read"])],
)
async def test_a_body_that_is_too_large_is_refused(
    headers: list[tuple[bytes, bytes]], bodies: list[bytes]
) -> None:
    """As soon as that is known: from its length, or when it has come so far."""
    with pytest.raises(RequestError) as caught:
        await read_body(scope(*headers), receiving(*pieces(*bodies)), max_bytes=3)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")


async def test_a_client_that_leaves_is_noticed() -> None:
    """In the middle of its body."""
    first = {"type": "http.request", "body": b"a", "more_body": True}
    with pytest.raises(ClientLeft):
        await read_body(scope(), receiving(first, {"type": "http.disconnect"}), max_bytes=3)


async def test_a_whole_reply_has_its_length() -> None:
    """A head and one piece."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await send_whole(send, 200, (("a", "ü"),), b"abc")
    assert sent == [
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"a", b"\xfc"), (b"content-length", b"3")],
        },
        {"type": "http.response.body", "body": b"abc", "more_body": False},
    ]


def test_control_characters_are_not_sent_on() -> None:
    """The field is left out, the others stay; a tab is allowed (RFC 9110, 5.5)."""
    fields = (("a", "1"), ("b", "x\r\ny: z"), ("c", "\x00"), ("d", "x\ty"))
    assert sendable(fields) == (("a", "1"), ("d", "x\ty"))
