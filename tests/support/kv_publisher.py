"""A model server's KV events, without a model server: publishes and replays as vLLM does."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
import zmq
from zmq.asyncio import Context

END = (-1).to_bytes(8, "big", signed=True)


def stored(number: int, **more: object) -> dict[str, object]:
    """Return an event as vLLM 0.32 sends it."""
    return {
        "type": "BlockStored",
        "block_hashes": [number.to_bytes(32, "big")],
        "parent_block_hash": None,
        "token_ids": [number, number + 1],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **more,
    }


def packed(time: float, events: Sequence[object]) -> bytes:
    """Return a batch's payload."""
    return msgspec.msgpack.encode([time, events, 0])


class KvPublisher:
    """Publishes and replays. An asynchronous context manager."""

    def __init__(self, context: Context, folder: str, *, kept: int = 100) -> None:
        self.endpoint = f"ipc://{folder}/events"
        self.replay_endpoint = f"ipc://{folder}/replay"
        self._context = context
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=kept)
        self._next = 0
        self._time = 0.0
        self.asked: list[int] = []

    async def __aenter__(self) -> Self:
        self._pub = self._context.socket(zmq.XPUB)
        self._router = self._context.socket(zmq.ROUTER)
        self._pub.bind(self.endpoint)
        self._router.bind(self.replay_endpoint)
        self._task = asyncio.create_task(self._answer())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._pub.close(linger=0)
        self._router.close(linger=0)

    async def subscribed(self) -> None:
        """Wait for a subscriber."""
        await asyncio.wait_for(self._pub.recv(), 5.0)

    def restart(self) -> None:
        """Begin another run: numbers from 0 on, nothing to replay."""
        self._kept.clear()
        self._next = 0

    async def publish(self, *events: object, is_lost: bool = False) -> None:
        """Publish a batch, which nobody gets if it is lost."""
        self._time += 1.0
        payload = packed(self._time, events)
        self._kept.append((self._next, payload))
        if not is_lost:
            await self.send(self._next.to_bytes(8, "big"), payload)
        self._next += 1

    async def again(self) -> None:
        """Publish the last batch once more."""
        number, payload = self._kept[-1]
        await self.send(number.to_bytes(8, "big"), payload)

    async def send(self, *frames: bytes) -> None:
        """Publish any bytes."""
        await self._pub.send_multipart([b"", *frames])

    async def _answer(self) -> None:
        while True:
            client, _, since = await self._router.recv_multipart()
            self.asked.append(int.from_bytes(since, "big"))
            for number, payload in list(self._kept):
                if number >= self.asked[-1]:
                    frames = [client, b"", b"", number.to_bytes(8, "big"), payload]
                    await self._router.send_multipart(frames)
            await self._router.send_multipart([client, b"", b"", END, b""])
