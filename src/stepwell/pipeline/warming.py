"""Warm on hit: after an answer from the cache, the model server reads what it was spared.

A hit leaves the server cold: it has never seen that turn, so the user's next one would have to be
computed from its beginning. Behind the answer the conversation is sent to it, asking for one token,
when it has nothing else to do. Nobody waits for that, and nothing of it fails a request.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import NotWarmed, Warmed
from stepwell.core.names import CacheKey, Endpoint
from stepwell.core.ports import Call, EventSink
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.short_reply import Refused, usage_of
from stepwell.policy.spending import Spending
from stepwell.wire.next_turn import next_turn

BYTES_PER_TOKEN = 4
"""About, of English; what a call will cost is told by its size before it is made."""

MAX_WAITING = 16
"""Conversations that wait for a moment when their server is idle; the newest counts."""

IDLE_SECONDS = 0.2
"""So long a server must have had nothing to do."""

PATIENCE_SECONDS = 20.0
"""After so long, the user has probably gone on."""

MAX_READ = 4_096
"""Conversations of which it is known when they were read here last."""


@dataclass(frozen=True, slots=True)
class WarmingRules:
    """Which hits a server is warmed after, and how much that may cost."""

    tokens_per_minute: int
    min_tokens: int = 256
    """Shorter prompts are computed as quickly as they are fetched."""
    fresh_seconds: float = 60.0
    """What the server answered, or read here, so recently it has not forgotten yet."""


class Warming:
    """Warms model servers. One event loop; not thread-safe."""

    def __init__(
        self,
        rules: Mapping[str, WarmingRules],
        *,
        in_flight: Callable[[str], int],
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Warm nothing yet.

        Args:
            rules: By the names of the upstreams that are warmed.
            in_flight: Returns how many calls to an upstream are under way.
            clock: The time.
            events: Hears what came of it.
        """
        self._rules = rules
        self._spending = {name: Spending(one.tokens_per_minute) for name, one in rules.items()}
        self._in_flight = in_flight
        self._clock = clock
        self._events = events
        self._waiting: dict[asyncio.Task[None], str] = {}
        self._read_at: dict[CacheKey | None, float] = {}

    @property
    def waiting(self) -> int:
        """How many conversations are to be read, or are being read."""
        return len(self._waiting)

    def due_at(self, question: Question, entry: Entry, *, reworded: bool = False) -> float:
        """Return from when on a hit has the server read it; infinity: never."""
        rules = self._rules.get(question.upstream)
        if rules is None or question.endpoint is not Endpoint.CHAT:
            return math.inf
        answered_at = -math.inf if reworded else entry.created_at
        return self._read_at.get(question.key, answered_at) + rules.fresh_seconds

    def served(self, ask: Ask, entry: Entry, *, reworded: bool) -> None:
        """Have the server of a hit read it, when it can.

        Args:
            ask: What was asked.
            entry: What was served.
            reworded: Whether it was the answer to other words, which the server has never read.
        """
        if self._clock.now() < self.due_at(ask.question, entry, reworded=reworded):
            return
        name = ask.upstream.name
        body = next_turn(ask.plain_call.body, entry.answer)
        if body is None or len(body) < self._rules[name].min_tokens * BYTES_PER_TOKEN:
            return
        if len(self._waiting) >= MAX_WAITING:
            next(iter(self._waiting)).cancel()
            self._events.emit(NotWarmed(name, "crowded"))
        task = asyncio.create_task(self._warm(ask, replace(ask.plain_call, body=body, key=None)))
        self._waiting[task] = name
        task.add_done_callback(self._waiting.pop)

    async def aclose(self) -> None:
        """Stop. It was nobody's request."""
        tasks = list(self._waiting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _warm(self, ask: Ask, call: Call) -> None:
        name = ask.upstream.name
        if not await self._is_idle(name):
            self._events.emit(NotWarmed(name, "busy"))
            return
        tokens = len(call.body) // BYTES_PER_TOKEN
        if not self._spending[name].take(tokens, self._clock.monotonic()):
            self._events.emit(NotWarmed(name, "over-budget"))
            return
        try:
            usage = await usage_of(await ask.upstream.send(call), name)
        except (UpstreamError, RequestError, Refused):  # The upstream has counted it.
            self._events.emit(NotWarmed(name, "failed"))
        else:
            self._note_read(ask.question.key)
            self._events.emit(Warmed(name, usage))

    def _note_read(self, key: CacheKey | None) -> None:
        self._read_at.pop(key, None)
        self._read_at[key] = self._clock.now()
        if len(self._read_at) > MAX_READ:
            del self._read_at[next(iter(self._read_at))]

    async def _is_idle(self, name: str) -> bool:
        """Wait until a server has had nothing to do for a moment; return whether that came."""
        deadline = self._clock.monotonic() + PATIENCE_SECONDS
        while self._clock.monotonic() < deadline:
            was_idle = not self._in_flight(name)
            await asyncio.sleep(IDLE_SECONDS)
            if was_idle and not self._in_flight(name):
                return True
        return False
