"""Simulated replicas of a model server, for prefix_routing.py.

A replica keeps the KV of whole blocks, least recently used out first, ends of prompts before
beginnings, as vLLM does. It computes one prompt after the other at a fixed rate and writes any
number of answers at the same time, each at a fixed rate.
"""

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.prefix.placement.replicas import Condition, Loads, ReplicaName, ReplicaState, Work

PREFILL_TOKENS_PER_SECOND = 8_000.0
SECONDS_PER_OUTPUT_TOKEN = 0.02
OUTPUT_TOKENS_AT_ONCE = 16
"""An output token takes this part of its time away from others: what a batch shares."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a user adds, and what the model says to it."""

    asked: bytes
    said: bytes
    think_seconds: float = 0.0
    """Between the answer before and this turn."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation: each turn's prompt is all that was asked and said before."""

    start_seconds: float
    system: bytes
    turns: Sequence[Turn]
    name: bytes | None = None
    """Names the conversation to the router, where the trace tells it."""


@dataclass(slots=True)
class Request:
    """A turn under way."""

    chat: Chat
    number: int
    prompt: Tokens
    asked_at: float
    work: Work | None = None
    foretold: int = 0
    cached: int = 0
    attempt: int = 0


class Policy(Protocol):
    """Decides which replica gets a prompt, and hears what came of it."""

    def place(
        self, prompt: Tokens, chat: bytes | None, states: Sequence[ReplicaState], /
    ) -> tuple[ReplicaName, int]:
        """Return a replica, and how many tokens it is taken to hold."""
        ...

    def computed(self, replica: ReplicaName, tokens: Tokens) -> None:
        """Hear that a replica has computed some tokens."""
        ...

    def reported(self, replica: ReplicaName, prompt: Tokens, foretold: int, cached: int) -> None:
        """Hear what a replica reports of a prompt."""
        ...

    def lost(self, replica: ReplicaName) -> None:
        """Hear that a replica is down."""
        ...


class Kv:
    """Blocks of one replica, by a chained hash, as vLLM finds them."""

    def __init__(self, max_tokens: int, block_tokens: int) -> None:
        self._max_blocks = max_tokens // block_tokens
        self._step = block_tokens * TOKEN_BYTES
        self._block_tokens = block_tokens
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def _chain(self, tokens: bytes) -> Iterator[int]:
        block = 0
        for at in range(0, len(tokens) - self._step + 1, self._step):
            block = hash((block, tokens[at : at + self._step]))
            yield block

    def matched(self, prompt: bytes) -> int:
        """Return how many tokens of a prompt need not be computed."""
        chain = self._chain(prompt[:-TOKEN_BYTES])
        held = itertools.takewhile(self._blocks.__contains__, chain)
        return self._block_tokens * sum(1 for _ in held)

    def store(self, tokens: bytes) -> None:
        """Keep all blocks of some tokens."""
        for block in reversed(list(self._chain(tokens))):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._blocks.clear()


@dataclass(slots=True)
class Replica:
    """A model server, and what it did."""

    name: ReplicaName
    kv: Kv
    speed: float = 1.0
    condition: Condition = Condition.READY
    queue: deque[Request] = field(default_factory=deque)
    computing: Request | None = None
    writing: list[Request] = field(default_factory=list)
    requests: int = 0
    computed_tokens: int = 0
    written_tokens: int = 0

    @property
    def work_seconds(self) -> float:
        """How long it was busy, for a replica of speed 1."""
        written = self.written_tokens * SECONDS_PER_OUTPUT_TOKEN / OUTPUT_TOKENS_AT_ONCE
        return self.computed_tokens / PREFILL_TOKENS_PER_SECOND + written


@dataclass(frozen=True, slots=True)
class Outage:
    """A replica that dies, and comes back with nothing."""

    replica: ReplicaName
    from_seconds: float
    to_seconds: float


@dataclass(slots=True)
class Sums:
    """What came of a run."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    foretold_tokens: int = 0
    met_tokens: int = 0
    first_token_seconds: list[float] = field(default_factory=list)


class Fleet:
    """Replicas, the requests they are given, and the time."""

    def __init__(self, replicas: Sequence[Replica], policies: Sequence[Policy]) -> None:
        """Start idle.

        Args:
            replicas: The fleet.
            policies: One for each gateway; conversations take turns between them, and a gateway
                sees only its own requests.
        """
        self.replicas = {replica.name: replica for replica in replicas}
        self.sums = Sums()
        self._policies = policies
        self._loads = [Loads() for _ in policies]
        self._events: list[tuple[float, int, str, object]] = []
        self._order = itertools.count()
        self._gateways: dict[int, int] = {}

    def run(self, chats: Sequence[Chat], outages: Sequence[Outage] = ()) -> None:
        """Serve all conversations to their end."""
        for number, chat in enumerate(chats):
            self._gateways[id(chat)] = number % len(self._policies)
            self._at(chat.start_seconds, "ask", (chat, 0, chat.system))
        for outage in outages:
            self._at(outage.from_seconds, "die", outage.replica)
            self._at(outage.to_seconds, "return", outage.replica)
        while self._events:
            now, _, kind, what = heapq.heappop(self._events)
            getattr(self, f"_{kind}")(now, what)

    def _at(self, when: float, kind: str, what: object) -> None:
        heapq.heappush(self._events, (when, next(self._order), kind, what))

    def _ask(self, now: float, what: tuple[Chat, int, bytes]) -> None:
        chat, number, before = what
        prompt = Tokens(before + chat.turns[number].asked)
        self._place(now, Request(chat, number, prompt, now))

    def _place(self, now: float, request: Request) -> None:
        gateway = self._gateways[id(request.chat)]
        loads = self._loads[gateway]
        states = [
            ReplicaState(one.name, loads.of(one.name), one.condition)
            for one in self.replicas.values()
        ]
        policy = self._policies[gateway]
        name, request.foretold = policy.place(request.prompt, request.chat.name, states)
        length = len(request.prompt) // TOKEN_BYTES
        request.work = loads.begin(name, length - request.foretold)
        replica = self.replicas[name]
        replica.queue.append(request)
        self._next(now, replica)

    def _next(self, now: float, replica: Replica) -> None:
        if replica.computing is None and replica.queue:
            request = replica.computing = replica.queue.popleft()
            request.cached = replica.kv.matched(request.prompt)
            missing = len(request.prompt) // TOKEN_BYTES - request.cached
            replica.computed_tokens += missing
            seconds = missing / (PREFILL_TOKENS_PER_SECOND * replica.speed)
            self._at(now + seconds, "computed", (replica, request, request.attempt))

    def _computed(self, now: float, what: tuple[Replica, Request, int]) -> None:
        replica, request, attempt = what
        if request.attempt != attempt:
            return
        replica.computing = None
        replica.kv.store(request.prompt)
        replica.writing.append(request)
        if request.work is not None:
            request.work.prefilled()
        self._policies[self._gateways[id(request.chat)]].computed(replica.name, request.prompt)
        self._count(now, request)
        said = len(request.chat.turns[request.number].said) // TOKEN_BYTES
        seconds = said * SECONDS_PER_OUTPUT_TOKEN / replica.speed
        self._at(now + seconds, "written", (replica, request, attempt))
        self._next(now, replica)

    def _count(self, now: float, request: Request) -> None:
        self.sums.prompt_tokens += len(request.prompt) // TOKEN_BYTES
        self.sums.cached_tokens += request.cached
        self.sums.foretold_tokens += request.foretold
        self.sums.met_tokens += min(request.foretold, request.cached)
        self.sums.first_token_seconds.append(now - request.asked_at)

    def _written(self, now: float, what: tuple[Replica, Request, int]) -> None:
        replica, request, attempt = what
        if request.attempt != attempt:
            return
        replica.writing.remove(request)
        if request.work is not None:
            request.work.ended()
        chat, number = request.chat, request.number
        tokens = Tokens(request.prompt + chat.turns[number].said)
        replica.kv.store(tokens)
        replica.requests += 1
        replica.written_tokens += len(chat.turns[number].said) // TOKEN_BYTES
        policy = self._policies[self._gateways[id(chat)]]
        policy.reported(replica.name, request.prompt, request.foretold, request.cached)
        policy.computed(replica.name, tokens)
        if number + 1 < len(chat.turns):
            self._at(now + chat.turns[number + 1].think_seconds, "ask", (chat, number + 1, tokens))

    def _die(self, now: float, name: ReplicaName) -> None:
        replica = self.replicas[name]
        replica.condition = Condition.DOWN
        replica.kv.clear()
        for policy in self._policies:
            policy.lost(name)
        computing = [] if replica.computing is None else [replica.computing]
        orphans = [*replica.queue, *computing, *replica.writing]
        replica.queue.clear()
        replica.writing.clear()
        replica.computing = None
        for request in orphans:
            request.attempt += 1
            if request.work is not None:
                request.work.ended()
            self._place(now, request)

    def _return(self, now: float, name: ReplicaName) -> None:
        del now
        self.replicas[name].condition = Condition.READY
