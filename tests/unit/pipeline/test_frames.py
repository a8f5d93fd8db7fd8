"""What one worker tells another of a reply, also where the two are of different versions."""

from collections.abc import AsyncGenerator

import msgspec
import pytest

from stepwell.core.entry import Usage
from stepwell.core.names import Endpoint, Form, Position
from stepwell.pipeline.circle import Followed
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Flight, Head, Landed
from stepwell.pipeline.frames import Frame, Kind, Wanted, hand_over, take_over
from stepwell.pipeline.leg import BorrowedLeg

MADE = Made(Position(0), (), Position(0))
COST = (830, 4, 2.5)
"""Prompt tokens, completion tokens and seconds: all that was told before cached tokens were."""


async def frames_of(end: Landed) -> list[Frame]:
    """Return what is sent of a flight that came to such an end."""
    flight = Flight(MADE, max_kept_bytes=1 << 20)
    flight.begin(Head(200, (), Form.SSE))
    await flight.extend(b"data: [DONE]\n\n")
    flight.finish(end)
    sent: list[Frame] = []

    async def send(kind: Kind, body: bytes) -> None:
        sent.append((kind, body))

    await hand_over(flight, Wanted(b"", 0, ()), send)
    return sent


async def end_of(frames: list[Frame]) -> object:
    """Return to which end a flight comes that takes these frames over."""

    async def come() -> AsyncGenerator[Frame]:
        for frame in frames:
            yield frame

    flight = Flight(MADE, max_kept_bytes=1 << 20)
    followed = await take_over(come(), BorrowedLeg(flight, Endpoint.CHAT))
    assert followed is Followed.TO_THE_END
    return flight.end


@pytest.mark.parametrize("cached", [812, 0, None])
async def test_what_an_answer_cost_is_told(cached: int | None) -> None:
    """Cached tokens too, and whether they are known."""
    landed = Landed(None, usage=Usage(830, 4, cached), upstream_seconds=2.5)
    assert await end_of(await frames_of(landed)) == landed


async def test_a_worker_of_the_version_before_is_understood() -> None:
    """It tells no cached tokens."""
    *others, _ = await frames_of(Landed(None))
    told = msgspec.msgpack.encode(COST)
    landed = Landed(None, usage=Usage(830, 4), upstream_seconds=2.5)
    assert await end_of([*others, (Kind.END, told)]) == landed


async def test_a_worker_of_the_version_before_understands() -> None:
    """It reads the first fields and passes over the rest."""

    class Cost(msgspec.Struct, array_like=True):
        prompt_tokens: int
        completion_tokens: int
        upstream_seconds: float

    landed = Landed(None, usage=Usage(830, 4, 812), upstream_seconds=2.5)
    kind, told = (await frames_of(landed))[-1]
    assert kind is Kind.END
    assert msgspec.msgpack.decode(told, type=Cost) == Cost(*COST)
