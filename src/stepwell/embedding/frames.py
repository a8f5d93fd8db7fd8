"""What the host's embedder and its clients say to each other over a Unix socket.

A frame is its length in 4 bytes, little-endian, and a message in MessagePack. The embedder begins
with `Hello`; then clients ask, and each question has one answer, in any order. Vectors are raw
little-endian float32.
"""

import struct

import msgspec

from stepwell.core.vectors import Unfit

MAX_FRAME_BYTES = 1 << 20
"""No window of a bundled model takes a tenth of that."""

_LENGTH = struct.Struct("<I")


class Hello(msgspec.Struct, array_like=True, tag="hello", frozen=True):
    """Which embedder this is."""

    model_id: str


class Ask(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """Wants the vector of a text."""

    number: int
    text: str


class Compare(msgspec.Struct, array_like=True, tag="compare", frozen=True):
    """Wants to know how surely one answer serves two texts."""

    number: int
    one: str
    other: str


class Probe(msgspec.Struct, array_like=True, tag="probe", frozen=True):
    """Wants `Idle` from a computing thread, however long the queue is."""

    number: int


class Computed(msgspec.Struct, array_like=True, tag="computed", frozen=True):
    """A vector."""

    number: int
    floats: bytes


class Compared(msgspec.Struct, array_like=True, tag="compared", frozen=True):
    """How surely, in [0, 1]; ``None``: the model cannot tell."""

    number: int
    score: float | None


class Refused(msgspec.Struct, array_like=True, tag="refused", frozen=True):
    """The text has no vector that means anything."""

    number: int
    why: Unfit


class Failed(msgspec.Struct, array_like=True, tag="failed", frozen=True):
    """It did not work, or the queue is full."""

    number: int
    message: str


class Idle(msgspec.Struct, array_like=True, tag="idle", frozen=True):
    """A computing thread came round to a probe."""

    number: int


Question = Ask | Compare | Probe
Answer = Hello | Computed | Compared | Refused | Failed | Idle

_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer)


class BadFrame(ValueError):
    """What came is not of this protocol. The connection is of no more use."""


def frame(message: Question | Answer) -> bytes:
    """Return ``message`` as it is sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


def question(body: bytes) -> Question:
    """Read what a client sent.

    Raises:
        BadFrame: It is none.
    """
    try:
        return _questions.decode(body)
    except msgspec.MsgspecError as error:
        raise BadFrame(str(error)) from error


def answer(body: bytes) -> Answer:
    """Read what the embedder sent.

    Raises:
        BadFrame: It is none.
    """
    try:
        return _answers.decode(body)
    except msgspec.MsgspecError as error:
        raise BadFrame(str(error)) from error


class Frames:
    """Puts frames together from the bytes of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what came; return the bodies of the frames that are whole now.

        Raises:
            BadFrame: A frame is longer than any may be.
        """
        self._buffer += data
        bodies = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME_BYTES:
                raise BadFrame(f"a frame of {length} bytes")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return bodies
