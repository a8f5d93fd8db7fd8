"""Who is computed next: one of each tenant in turn, so that none can take all the places."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stepwell.core.errors import RequestError
from stepwell.core.names import Namespace

Owner = Namespace | None


class Turns:
    """Slots, and places to wait for one. One event loop.

    A free slot goes to the tenants in turn, and within one to who came first. When all places are
    taken, a tenant that has fewer gets one of him who has the most, whose last request is refused
    in its stead: as packets are dropped from the longest queue (RFC 8290, 4.1.3).
    """

    def __init__(self, slots: int, max_waiting: int) -> None:
        """Have as many slots, all free, and as many places to wait."""
        self._free = slots
        self._max_waiting = max_waiting
        self._queues: dict[Owner, deque[asyncio.Future[None]]] = {}
        """None of them empty; whose turn is next comes first."""

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def turn(self, owner: Owner) -> AsyncIterator[None]:
        """Have a slot while the block runs. Costs microseconds, and some for each tenant waiting.

        Raises:
            RequestError: 429, too many wait.
        """
        if self._free and not self._queues:
            self._free -= 1
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, owner: Owner) -> None:
        if self.waiting >= self._max_waiting:
            self._drop_one_for(owner)
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.cancel() or turn.cancelled():
                self._leave(owner, turn)
            elif turn.exception() is None:  # it was cancelled when it had just got its turn
                self._pass_on()
            raise

    def _drop_one_for(self, owner: Owner) -> None:
        """Refuse the last of who has most waiting, or this one, if that is its owner's.

        Raises:
            RequestError: This one.
        """
        waiting = self.waiting
        most = max(self._queues.values(), key=len, default=deque())
        if len(self._queues.get(owner, ())) + 1 >= len(most):
            raise _busy(waiting)
        dropped = most.pop()
        if not dropped.done():
            dropped.set_exception(_busy(waiting))

    def _pass_on(self) -> None:
        """Give a slot to whose turn is next."""
        while self._queues:
            owner = next(iter(self._queues))
            queue = self._queues.pop(owner)
            turn = queue.popleft()
            if queue:
                self._queues[owner] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, owner: Owner, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(owner, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[owner]


def _busy(waiting: int) -> RequestError:
    return RequestError(
        f"{waiting} requests wait already; try again later", status=429, code="engine_busy"
    )
