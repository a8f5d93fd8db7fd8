"""Which requests are repeats, and how they are answered on the short way."""

import pytest
from support.walk import Heard, completion, make_exact, make_flights, make_question, make_runner

from stepwell.core.entry import Selector
from stepwell.core.events import RequestEnded, Result
from stepwell.core.names import Form
from stepwell.gateway.hot import HotPath
from stepwell.gateway.replies import header_of
from stepwell.pipeline import repeats
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry
from stepwell.wire.shape import Shape

TARGET = b"/v1/chat/completions"
BODY = b'{"model":"model"}'
HEADERS = [(b"authorization", b"Bearer sk-a"), (b"user-agent", b"a")]
SERVER = [(b"date", b"now")]


class Room:
    """A short way, and what it asks."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.events = Heard()
        self.exact = make_exact(self.clock, self.events)
        flights = make_flights(self.exact, clock=self.clock, events=self.events)
        self.runner = make_runner(self.exact, flights, clock=self.clock, events=self.events)
        self.path = HotPath(
            self.runner, self.exact, clock=self.clock, events=self.events, extra_headers=["x-team"]
        )
        self.exact.keep(make_entry(body=completion()))


@pytest.fixture
def room() -> Room:
    """A short way with one answer in memory."""
    return Room()


@pytest.mark.parametrize(
    ("target", "headers", "body"),
    [
        (TARGET + b"?a=1", HEADERS, BODY),
        (b"/v1/completions", HEADERS, BODY),
        (TARGET, [(b"authorization", b"Bearer sk-b")], BODY),
        (TARGET, [], BODY),
        (TARGET, [*HEADERS, (b"cache-control", b"no-cache")], BODY),
        (TARGET, [*HEADERS, (b"x-stepwell-class", b"faq")], BODY),
        (TARGET, [*HEADERS, (b"x-stepwell-invented", b"")], BODY),
        (TARGET, [*HEADERS, (b"openai-organization", b"org")], BODY),
        (TARGET, [*HEADERS, (b"x-team", b"a")], BODY),
        (TARGET, HEADERS, BODY + b" "),
    ],
)
def test_another_request_is_no_repeat(
    room: Room, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Whatever can change the answer, or who may have it, is looked at."""
    assert room.path.digest(target, headers, body) != room.path.digest(TARGET, HEADERS, BODY)


def test_what_does_not_matter_makes_no_difference(room: Room) -> None:
    """Who sends it by which program, and when."""
    others = [(b"user-agent", b"b"), HEADERS[0], (b"traceparent", b"00-1"), (b"host", b"h")]
    digests = {room.path.digest(TARGET, headers, BODY) for headers in (HEADERS, others)}
    assert len(digests) == 1


def test_parts_do_not_run_into_each_other(room: Room) -> None:
    """A body that is written like a header field is none."""
    field = [(b"cache-control", b"no-cache")]
    assert room.path.digest(TARGET, field, b"x") != room.path.digest(
        TARGET, [], b"cache-control\nno-cache\n\nx"
    )


def test_a_repeat_is_answered_as_the_long_way_would(room: Room) -> None:
    """The same header fields, the server's own among them, and counted once."""
    for form in Form:
        digest = form.encode()
        question = make_question(shape=Shape(form))
        room.path.remember(digest, question)
        room.clock.seconds = 1_007.0
        answered = room.path.answer(digest, SERVER)
        served = room.runner.answer_now(question)
        assert answered is not None
        assert served is not None
        head, body = answered
        assert body == served.body
        status, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
        assert status == "HTTP/1.1 200 OK"
        expected = [*header_of(served), ("content-length", str(len(body))), ("date", "now")]
        assert sorted(lines) == sorted(f"{name}: {value}" for name, value in expected)

    ended = [event for event in room.events.events if isinstance(event, RequestEnded)]
    assert [(event.result, event.status, event.stream) for event in ended] == [
        (Result.HIT, 200, False),
        (Result.HIT, 200, True),
    ]
    assert ended[0].tenant == make_entry().namespace.hex()


async def test_what_is_no_plain_hit_is_not_answered(room: Room) -> None:
    """Unknown, bypassed, or gone; and nothing is counted, as the long way will."""
    room.path.remember(b"bypassed", make_question(bypass="store"))
    room.path.remember(b"known", make_question())
    await room.exact.invalidate(Selector())
    for digest in (b"unknown", b"bypassed", b"known"):
        assert room.path.answer(digest, SERVER) is None
    assert room.events.of(RequestEnded) == []


def test_what_is_remembered_is_bounded(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten first; remembering it again makes no room it does not need."""
    monkeypatch.setattr(repeats, "MAX_REMEMBERED", 2)
    for digest in (b"a", b"b", b"b", b"c"):
        room.path.remember(digest, make_question())
    known = [digest for digest in (b"a", b"b", b"c") if room.path.answer(digest, SERVER)]
    assert known == [b"b", b"c"]
