"""Frames survive any cutting; what is no frame is noticed."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.vectors import Unfit
from stepwell.embedding.frames import (
    MAX_FRAME_BYTES,
    Answer,
    Ask,
    BadFrame,
    Compare,
    Compared,
    Computed,
    Failed,
    Frames,
    Hello,
    Idle,
    Probe,
    Refused,
    answer,
    frame,
    question,
)

ANSWERS: list[Answer] = [
    Hello("model@1"),
    Computed(7, b"\0\1\xff" * 100),
    Compared(11, 0.25),
    Compared(12, None),
    Refused(8, Unfit.UNKNOWN_TOKENS),
    Failed(9, "voll"),
    Idle(10),
]


@given(st.lists(st.text(max_size=50), max_size=5), st.lists(st.integers(1, 40), max_size=200))
def test_questions_arrive_however_the_bytes_are_cut(texts: list[str], cuts: list[int]) -> None:
    sent = b"".join(frame(Ask(number, text)) for number, text in enumerate(texts))
    frames, got = Frames(), []
    for cut in [*cuts, len(sent)]:
        got += [question(body) for body in frames.feed(sent[:cut])]
        sent = sent[cut:]
    assert got == [Ask(number, text) for number, text in enumerate(texts)]


@pytest.mark.parametrize("said", ANSWERS)
def test_answers_arrive(said: Answer) -> None:
    (body,) = Frames().feed(frame(said))
    assert answer(body) == said


def test_a_pair_arrives() -> None:
    (body,) = Frames().feed(frame(Compare(3, "one", "other")))
    assert question(body) == Compare(3, "one", "other")


def test_half_a_frame_is_nothing_yet() -> None:
    frames = Frames()
    sent = frame(Probe(1))
    assert frames.feed(sent[:-1]) == []
    assert [question(body) for body in frames.feed(sent[-1:])] == [Probe(1)]


def test_a_frame_longer_than_any_is_not_waited_for() -> None:
    with pytest.raises(BadFrame, match="a frame of"):
        Frames().feed(struct.pack("<I", MAX_FRAME_BYTES + 1))


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xc1", b"\x93\xa3ask\x01", b"HTTP/1.1 200 OK"])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(BadFrame):
        question(body)
    with pytest.raises(BadFrame):
        answer(body)


@given(st.binary(max_size=200))
def test_noise_raises_nothing_else(noise: bytes) -> None:
    try:
        for body in Frames().feed(noise):
            answer(body)
    except BadFrame:
        pass
