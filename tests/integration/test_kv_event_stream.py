"""A stream of KV events over ZeroMQ, against a publisher that does as vLLM does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.kv_publisher import KvPublisher, stored
from zmq.asyncio import Context

from stepwell.core.errors import ConfigError
from stepwell.core.kv_events import BlocksStored, Gap, KvEvent, Resync
from stepwell.engines.kv_event_stream import EventSource, KvEventStream


@pytest.fixture
async def context() -> AsyncIterator[Context]:
    """Return a ZeroMQ context of the test's own."""
    context = Context()
    yield context
    context.destroy(linger=0)


class Listener:
    """Reads a stream as far as a test asks."""

    def __init__(self, stream: KvEventStream) -> None:
        self.stream = stream
        self._events = aiter(stream)

    async def told(self, count: int) -> list[int | KvEvent]:
        """Return the next events, those of stored blocks as the first of their tokens."""
        found: list[int | KvEvent] = []
        async with asyncio.timeout(10.0):
            while len(found) < count:
                match await anext(self._events):
                    case BlocksStored(tokens=tokens):
                        found.append(int.from_bytes(tokens[:4], "little"))
                    case event:
                        found.append(event)
        return found


@contextlib.asynccontextmanager
async def listening(
    context: Context, publisher: KvPublisher, *, replays: bool = True
) -> AsyncIterator[Listener]:
    replay = publisher.replay_endpoint if replays else None
    source = EventSource(publisher.endpoint, replay, replay_timeout_seconds=0.5)
    async with KvEventStream(context, source) as stream:
        await publisher.subscribed()
        yield Listener(stream)


async def test_what_came_before_is_made_up(context: Context, tmp_path: Path) -> None:
    """Who comes late hears the whole run; what is lost later is asked for again; nothing twice."""
    async with KvPublisher(context, str(tmp_path)) as publisher:
        for number in range(3):
            await publisher.publish(stored(number))
        async with listening(context, publisher) as listener:
            assert await listener.told(4) == [Resync(), 0, 1, 2]
            await publisher.publish(stored(3))
            await publisher.again()
            await publisher.publish(stored(4), is_lost=True)
            await publisher.publish(stored(5), is_lost=True)
            await publisher.publish(stored(6), stored(7))
            assert await listener.told(5) == [3, 4, 5, 6, 7]
            assert publisher.asked == [0, 3]
            assert listener.stream.counts.repeated == 1
            assert listener.stream.counts.unanswered == 0


async def test_restart(context: Context, tmp_path: Path) -> None:
    """A new run is told from its beginning, whether or not its first batches were heard."""
    async with KvPublisher(context, str(tmp_path)) as publisher:
        async with listening(context, publisher) as listener:
            for number in range(3):
                await publisher.publish(stored(number))
            assert await listener.told(4) == [Resync(), 0, 1, 2]
            publisher.restart()
            await publisher.publish(stored(10))
            assert await listener.told(2) == [Resync(), 10]
            publisher.restart()
            for number in range(20, 25):
                await publisher.publish(stored(number), is_lost=number < 24)
            assert await listener.told(6) == [Resync(), 20, 21, 22, 23, 24]


async def test_lost_for_good(context: Context, tmp_path: Path) -> None:
    """What the server does not keep any more is a gap of that length."""
    async with KvPublisher(context, str(tmp_path), kept=2) as publisher:
        async with listening(context, publisher) as listener:
            await publisher.publish(stored(0))
            assert await listener.told(2) == [Resync(), 0]
            for number in range(1, 7):
                await publisher.publish(stored(number), is_lost=number < 6)
            assert await listener.told(3) == [Gap(4), 5, 6]


async def test_without_replay(context: Context, tmp_path: Path) -> None:
    """Gaps are told, also the one at the beginning."""
    async with KvPublisher(context, str(tmp_path)) as publisher:
        await publisher.publish(stored(0), is_lost=True)
        async with listening(context, publisher, replays=False) as listener:
            reading = asyncio.create_task(listener.told(4))
            await publisher.publish(stored(1))
            await publisher.publish(stored(2), is_lost=True)
            await publisher.publish(stored(3))
            assert await reading == [Gap(1), 1, Gap(1), 3]


@pytest.mark.parametrize(
    "frames",
    [
        (bytes(8),),
        (bytes(8), b"\xc1"),
        (bytes(7), b"\x93\x01\x90\x00"),
        (bytes(8), b"", b"more"),
        (b"\xff" * 8, b"\x91" * 5000),
    ],
    ids=range(5),
)
async def test_garbage(context: Context, tmp_path: Path, frames: tuple[bytes, ...]) -> None:
    """Bytes that are no batch are counted and passed over."""
    async with KvPublisher(context, str(tmp_path)) as publisher:
        async with listening(context, publisher) as listener:
            await publisher.publish(stored(0))
            assert await listener.told(2) == [Resync(), 0]
            await publisher.send(*frames)
            await publisher.publish(stored(1))
            assert await listener.told(1) == [1]
            assert listener.stream.counts.garbage == 1


async def test_nobody_replays(context: Context, tmp_path: Path) -> None:
    """Where nobody answers at the replay endpoint, listening goes on after a moment."""
    async with KvPublisher(context, str(tmp_path)) as publisher:
        publisher.replay_endpoint = f"ipc://{tmp_path}/nobody"
        async with listening(context, publisher) as listener:
            await publisher.publish(stored(0))
            assert await listener.told(2) == [Resync(), 0]
            assert listener.stream.counts.unanswered == 2


async def test_no_endpoint(context: Context) -> None:
    """What is no endpoint is said to be none."""
    with pytest.raises(ConfigError, match="tcp://10"):
        async with KvEventStream(context, EventSource("10.0.0.7:5557")):
            pytest.fail("listening to nothing")
