"""One call, many readers: each gets all of it from the start, and none depends on another."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.walk import settle

from stepwell.core.errors import UpstreamBroken, UpstreamTimeout
from stepwell.core.names import Form, Position
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import MAX_LAG_BYTES, Crashed, Flight, Head, Landed, Reader

HEAD = Head(200, (), Form.SSE)
BROKEN = UpstreamBroken("broke", upstream="upstream")
NOTHING_MADE = Made(Position(0), (), Position(0))

Write = Callable[[Flight], Awaitable[None]]


def make_flight(*, max_kept_bytes: int = 1_000) -> Flight:
    """Return a flight that has not been started: the test is its writer."""
    return Flight(NOTHING_MADE, max_kept_bytes=max_kept_bytes)


async def read_all(reader: Reader) -> bytes:
    """Return the whole body."""
    return b"".join([chunk async for chunk in reader.chunks()])


async def test_readers_get_the_reply_as_it_comes() -> None:
    """The head, and every chunk, as soon as it is written."""
    flight = make_flight()
    reader = flight.join()
    head = asyncio.create_task(reader.head())
    await settle()
    assert not head.done()

    flight.begin(HEAD)
    assert await head == HEAD

    chunks = reader.chunks()
    for chunk in (b"a", b"b"):
        coming = asyncio.ensure_future(anext(chunks))
        await settle()
        assert not coming.done()
        await flight.extend(chunk)
        assert await coming == chunk

    flight.finish(Landed(None))
    assert [chunk async for chunk in chunks] == []


async def test_who_joins_late_gets_it_from_the_start() -> None:
    """In the middle, or after the end."""
    flight = make_flight()
    flight.begin(HEAD)
    await flight.extend(b"a")
    middle = flight.join()
    await flight.extend(b"b")
    flight.finish(Landed(None))
    late = flight.join()

    assert await middle.head() == await late.head() == HEAD
    assert await read_all(middle) == await read_all(late) == flight.body() == b"ab"


async def test_a_call_that_fails_before_its_head_fails_for_all() -> None:
    """Whoever waits for the head, or comes later, hears why."""
    flight = make_flight()
    waiting = asyncio.create_task(flight.join().head())
    await settle()
    flight.finish(Crashed(BROKEN))

    for head in (waiting, flight.join().head()):
        with pytest.raises(UpstreamBroken) as caught:
            await head
        assert caught.value is BROKEN


async def test_a_call_that_breaks_off_hands_on_what_came() -> None:
    """First the bytes, then the error: to those who read along and to those who come later."""
    flight = make_flight()
    flight.begin(HEAD)
    await flight.extend(b"half")
    flight.finish(Crashed(BROKEN))

    for reader in (flight.join(), flight.join()):
        chunks = reader.chunks()
        assert await anext(chunks) == b"half"
        with pytest.raises(UpstreamBroken):
            await anext(chunks)


async def test_who_only_waits_for_the_end_gets_the_end() -> None:
    """Landed, or the error."""
    landed, crashed = make_flight(), make_flight()
    waiting = asyncio.create_task(landed.join().landed())
    await settle()
    assert not waiting.done()
    landed.finish(Landed(None))
    assert await waiting == Landed(None)

    crashed.finish(Crashed(BROKEN))
    with pytest.raises(UpstreamBroken):
        await crashed.join().landed()


class Writing:
    """A writer that begins, and then waits for ever."""

    def __init__(self) -> None:
        self.cancelled = False

    async def __call__(self, flight: Flight) -> None:
        flight.begin(HEAD)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_the_call_goes_on_while_anybody_reads() -> None:
    """Only the last reader that leaves stops it, whoever came first."""
    flight, writing = make_flight(), Writing()
    flight.start(writing)
    first, second = flight.join(), flight.join()
    await settle()

    first.leave()
    first.leave()
    await settle()
    assert not writing.cancelled

    second.leave()
    await settle()
    assert writing.cancelled


@pytest.mark.parametrize(
    ("chunks", "max_kept_bytes", "stops"),
    [
        ([b"data: {}\n\n", b"data: [DONE]\n\n"], 1_000, False),
        ([b"data: {}\n\ndata: [DO", b"NE]\n\n"], 1_000, False),
        ([b"data: {}\n\n"], 1_000, True),
        ([b"data: [DONE]\n\n", b"data: {}\n\n"], 1_000, True),
        ([b"data: {}\n\n", b"data: [DONE]\n\n"], 10, True),
    ],
)
async def test_a_reader_that_leaves_at_the_last_event_stops_nothing(
    chunks: list[bytes], max_kept_bytes: int, *, stops: bool
) -> None:
    """Clients hang up at ``[DONE]``, before the connection's end: the answer can be kept."""
    flight, writing = make_flight(max_kept_bytes=max_kept_bytes), Writing()
    flight.start(writing)
    reader = flight.join()
    await settle()
    flight.begin(HEAD)
    for chunk in chunks:
        await flight.extend(chunk)
    reader.leave()
    await settle()
    assert writing.cancelled is stops
    assert flight.stopped is stops


async def test_a_stopped_call_has_an_end() -> None:
    """Whoever joined in the moment it was stopped does not wait for ever."""
    flight = make_flight()
    flight.start(Writing())
    reader = flight.join()
    await settle()
    reader.leave()
    late = flight.join()
    with pytest.raises(UpstreamBroken):
        await late.landed()


async def test_leaving_after_the_end_stops_nothing() -> None:
    """What is still to be done with the answer, such as storing it, is done."""
    stored = False

    async def write(flight: Flight) -> None:
        nonlocal stored
        flight.begin(HEAD)
        flight.finish(Landed(None))
        await asyncio.sleep(0)
        stored = True

    flight = make_flight()
    flight.start(write)
    reader = flight.join()
    await reader.landed()
    reader.leave()
    await settle()
    assert stored


async def test_a_reply_is_kept_whole_up_to_its_bound() -> None:
    """A byte more, and it can be neither joined nor stored."""
    flight = make_flight(max_kept_bytes=4)
    await flight.extend(b"abcd")
    assert (flight.kept_whole, flight.body()) == (True, b"abcd")
    await flight.extend(b"e")
    assert not flight.kept_whole


MIB = bytes(1 << 20)


async def test_an_oversized_reply_waits_for_its_slowest_reader() -> None:
    """The writer stops at the bound, whoever is fast, and goes on when the slow one has read."""
    flight = make_flight(max_kept_bytes=0)
    fast, slow = flight.join(), flight.join()
    fast_chunks, slow_chunks = fast.chunks(), slow.chunks()

    await flight.extend(MIB)
    second = asyncio.create_task(flight.extend(MIB))
    assert await anext(fast_chunks) == MIB
    assert await anext(fast_chunks) == MIB
    await settle()
    assert not second.done()

    assert await anext(slow_chunks) == MIB
    await second


async def test_an_oversized_reply_takes_bounded_room() -> None:
    """However long it is, no more than the bound is held; every reader gets every byte."""
    flight = make_flight(max_kept_bytes=0)
    readers = [flight.join(), flight.join()]
    sizes = [0, 0]
    most_held = 0

    async def read(index: int) -> None:
        async for chunk in readers[index].chunks():
            sizes[index] += len(chunk)
            if index:
                await asyncio.sleep(0)  # the slower one

    reading = [asyncio.create_task(read(index)) for index in (0, 1)]
    for _ in range(100):
        await flight.extend(MIB[: 1 << 18])
        most_held = max(most_held, sum(map(len, flight._chunks)))
    flight.finish(Landed(None))
    await asyncio.gather(*reading)

    assert sizes == [100 << 18, 100 << 18]
    assert most_held <= MAX_LAG_BYTES


@pytest.mark.parametrize("how", ["leaves", "waits for the end only"])
async def test_who_does_not_read_holds_nobody_up(how: str) -> None:
    """A reader that left, or does not take the body, does not count as slow."""
    flight = make_flight(max_kept_bytes=0)
    reader, other = flight.join(), flight.join()
    reading = asyncio.create_task(read_all(reader))
    writing = asyncio.create_task(flight.extend(MIB * 2))
    await settle()
    assert not writing.done()

    waiting = None
    if how == "leaves":
        other.leave()
    else:
        waiting = asyncio.create_task(other.landed())
    await asyncio.wait_for(writing, timeout=5)
    flight.finish(Landed(None))
    assert len(await reading) == len(MIB) * 2
    if waiting is not None:
        assert await waiting == Landed(None)


async def test_late_errors_keep_their_kind() -> None:
    """A timeout reaches the reader as a timeout."""
    flight = make_flight()
    flight.finish(Crashed(UpstreamTimeout("late", upstream="upstream")))
    with pytest.raises(UpstreamTimeout):
        await flight.join().head()
