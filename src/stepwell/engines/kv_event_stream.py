"""Listens to a model server's KV events over ZeroMQ. Needs `pyzmq`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import zmq
from zmq.asyncio import Context, Socket

from stepwell.core.errors import ConfigError
from stepwell.core.kv_events import KvEvent
from stepwell.engines.kv_event_batch import (
    END_OF_REPLAY,
    SEQUENCE_BYTES,
    Batch,
    NoBatch,
    parse_batch,
)
from stepwell.engines.kv_event_order import Expected, Missing, Order, Repeated

_MAX_WAITING_BATCHES = 100_000
"""Beyond that the newest are dropped, which is a gap; as many as vLLM holds on its side."""

_MAX_MESSAGE_BYTES = 64 * 2**20

_MAX_REPLAYED_BATCHES = 100_000
"""Ten times what vLLM keeps: an answer without end is none."""


_LONGEST_REPLAY = 15
"""Times what is waited for one batch: new events wait meanwhile."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where a server publishes."""

    endpoint: str
    """Such as ``tcp://10.0.0.7:5557``. The server must bind it: vLLM does so if it is told
    ``tcp://*:5557``, and connects if it is told an address."""
    replay_endpoint: str | None = None
    """Where it sends batches again. Without it, what is lost is lost, and what it held before
    somebody began to listen is not known."""
    topic: str = ""
    replay_timeout_seconds: float = 2.0
    """How long to wait for a batch that was asked for again."""


@dataclass(slots=True)
class EventCounts:
    """Since the stream was opened."""

    batches: int = 0
    repeated: int = 0
    """Came more than once, and were taken once."""
    garbage: int = 0
    """Could not be read."""
    replays: int = 0
    """How often batches were asked for again."""
    unanswered: int = 0
    """How often nothing, or not all, came."""


class KvEventStream:
    """The events of one server, in order, for as long as somebody listens.

    An asynchronous context manager and iterator. Never raises for what a server sends, or because
    it is not there: ZeroMQ connects again by itself. One event loop, one reader.

    What comes is as secret as the salts in it. ZeroMQ neither encrypts nor asks who connects.
    """

    def __init__(self, context: Context, source: EventSource) -> None:
        """Do nothing yet.

        Args:
            context: Owns the thread that does the I/O; many streams may share it.
            source: Where from.
        """
        self._context = context
        self._source = source
        self._order = Order()
        self._socket: Socket | None = None
        self.counts = EventCounts()

    async def __aenter__(self) -> Self:
        """Begin to listen. Does not wait for the server.

        Raises:
            ConfigError: An endpoint is none.
        """
        socket = self._context.socket(zmq.SUB)
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.RCVHWM, _MAX_WAITING_BATCHES)
        socket.set(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
        socket.subscribe(self._source.topic)
        self._connect(socket, self._source.endpoint)
        self._socket = socket
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def __aiter__(self) -> AsyncIterator[KvEvent]:
        """Yield events. First what the server still knows of its run so far."""
        for event in await self._made_up(0, None):
            yield event
        while self._socket is not None:
            batch = self._read(await self._socket.recv_multipart())
            if batch is not None:
                for event in await self._events(batch):
                    yield event

    async def _events(self, batch: Batch) -> Sequence[KvEvent]:
        match self._order.judge(batch):
            case Expected():
                return self._order.take(batch)
            case Repeated():
                self.counts.repeated += 1
                return ()
            case Missing(since):
                return await self._made_up(since, batch)

    async def _made_up(self, since: int, batch: Batch | None) -> Sequence[KvEvent]:
        again = await self._replay(since)
        if self._order.is_other_run(again):
            again = await self._replay(0)
        return list(self._order.make_up([*again, *([] if batch is None else [batch])]))

    async def _replay(self, since: int) -> list[Batch]:
        """Return the batches from ``since`` on that the server still has, as far as they come."""
        if self._source.replay_endpoint is None:
            return []
        self.counts.replays += 1
        # A socket of its own, so that a late answer is not taken for that to the next question.
        socket = self._context.socket(zmq.DEALER)
        try:
            socket.set(zmq.LINGER, 0)
            socket.set(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
            self._connect(socket, self._source.replay_endpoint)
            await socket.send_multipart([b"", since.to_bytes(SEQUENCE_BYTES, "big")])
            return await self._replayed(socket)
        finally:
            socket.close()

    async def _replayed(self, socket: Socket) -> list[Batch]:
        """Return what is sent again, as far as it comes in time."""
        batches: list[Batch] = []
        patience_seconds = self._source.replay_timeout_seconds
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LONGEST_REPLAY * patience_seconds
        with suppress(TimeoutError):
            for _ in range(_MAX_REPLAYED_BATCHES):
                async with asyncio.timeout_at(min(deadline, loop.time() + patience_seconds)):
                    _, *frames = await socket.recv_multipart()
                if frames[1:2] == [END_OF_REPLAY]:
                    return batches
                batch = self._read(frames)
                if batch is not None:
                    batches.append(batch)
        self.counts.unanswered += 1
        return batches

    def _read(self, frames: Sequence[bytes]) -> Batch | None:
        """Return the batch of a message: topic, number, payload; ``None`` if it is none."""
        self.counts.batches += 1
        try:
            _, sequence, payload = frames
            return parse_batch(sequence, payload)
        except (NoBatch, ValueError):
            self.counts.garbage += 1
            return None

    def _connect(self, socket: Socket, endpoint: str) -> None:
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            socket.close()
            raise ConfigError(
                f"cannot listen to KV events at {endpoint!r}: {error.strerror};"
                " an endpoint looks like tcp://10.0.0.7:5557 or ipc:///run/vllm-events"
            ) from error
