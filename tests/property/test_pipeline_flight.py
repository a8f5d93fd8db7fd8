"""Laws of a flight: whatever readers do, and in whatever order things happen."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.errors import UpstreamBroken, UpstreamError
from stepwell.core.names import Form, Position
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed

HEAD = Head(200, (), Form.SSE)
MADE = Made(Position(0), (), Position(0))
BROKEN = UpstreamBroken("broke", upstream="upstream")

chunk_lists = st.lists(st.binary(min_size=1, max_size=8), max_size=12)
paces = st.lists(st.integers(0, 3), min_size=1, max_size=5)
"""For each reader, how many turns it lets others have before it reads on."""


class Observed:
    """What one reader saw."""

    def __init__(self) -> None:
        self.body = b""
        self.error: UpstreamError | None = None


async def read(flight: Flight, pace: int, joins_after: int, seen: Observed) -> None:
    """Join after some turns, and read everything at some pace."""
    for _ in range(joins_after):
        await asyncio.sleep(0)
    reader = flight.join()
    try:
        await reader.head()
        async for chunk in reader.chunks():
            seen.body += chunk
            for _ in range(pace):
                await asyncio.sleep(0)
    except UpstreamError as error:
        seen.error = error
    finally:
        reader.leave()


@settings(max_examples=60, deadline=None)
@given(chunks=chunk_lists, readers=paces, breaks=st.booleans())
def test_every_reader_sees_the_whole_reply(
    *, chunks: list[bytes], readers: list[int], breaks: bool
) -> None:
    """Joined whenever, read however slowly: the same bytes, then the same end."""

    async def scenario() -> list[Observed]:
        async def write(flight: Flight) -> None:
            flight.begin(HEAD)
            for chunk in chunks:
                await flight.extend(chunk)
                await asyncio.sleep(0)
            flight.finish(Crashed(BROKEN) if breaks else Landed(None))

        flight = Flight(MADE, max_kept_bytes=1_000)
        flight.start(write)
        seen = [Observed() for _ in readers]
        await asyncio.gather(
            *[
                read(flight, pace, index, observed)
                for index, (pace, observed) in enumerate(zip(readers, seen, strict=True))
            ]
        )
        return seen

    for observed in asyncio.run(scenario()):
        assert observed.body == b"".join(chunks)
        assert observed.error is (BROKEN if breaks else None)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 5))
def test_the_writer_is_stopped_exactly_when_the_last_reader_leaves(
    data: st.DataObject, readers: int
) -> None:
    """In whatever order they leave."""
    order = data.draw(st.permutations(range(readers)))

    async def scenario() -> list[bool]:
        stopped = False

        async def write(flight: Flight) -> None:
            nonlocal stopped
            try:
                await asyncio.Event().wait()
            finally:
                stopped = True

        flight = Flight(MADE, max_kept_bytes=1_000)
        flight.start(write)
        joined = [flight.join() for _ in range(readers)]
        await asyncio.sleep(0)
        after_each = []
        for index in order:
            joined[index].leave()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            after_each.append(stopped)
        return after_each

    assert asyncio.run(scenario()) == [False] * (readers - 1) + [True]
