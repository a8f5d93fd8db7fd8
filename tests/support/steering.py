"""Replicas without a network, and a steered upstream over them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.core.entry import Usage
from stepwell.core.events import Event
from stepwell.core.kv import Tokens
from stepwell.core.names import CacheKey, Endpoint, Namespace
from stepwell.core.ports import Call, Headers, Reply
from stepwell.core.steering import TokenSource
from stepwell.engines.beside import TasksBeside
from stepwell.engines.token_sources import tokens_of
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.placement.residency import Residency, Room
from stepwell.prefix.placement.router import Router
from stepwell.prefix.steering.hints import NearHints
from stepwell.prefix.steering.placement import Knowledge
from stepwell.prefix.steering.placing import Placing
from stepwell.prefix.steering.prompts import NamedPrompts, Prompts, TextPrompts
from stepwell.prefix.steering.servers import Replica, Replicas
from stepwell.prefix.steering.shaping import Shaping
from stepwell.prefix.steering.steered import SteeredUpstream
from stepwell.testing.clock import HandClock

ALICE = Namespace(b"alice" + bytes(11))


def call(body: object, *, key: CacheKey | None = None, namespace: Namespace | None = ALICE) -> Call:
    """Return a chat call with this body."""
    return Call(Endpoint.CHAT, orjson.dumps(body), (), namespace=namespace, key=key)


def asking(ids: Sequence[int], **fields: object) -> Call:
    """Return a call whose prompt has these tokens, for `NamedTokens`."""
    key = fields.pop("key", None)
    assert key is None or isinstance(key, bytes)
    body = {"model": "m", "ids": list(ids), **fields}
    return call(body, key=None if key is None else CacheKey(key))


def answer(usage: Usage) -> bytes:
    """Return a whole answer that says it cost so much."""
    said: dict[str, object] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        said["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return orjson.dumps({"usage": said})


class NamedTokens:
    """Implements `TokenSource`: a call's body has its tokens."""

    async def tokens(self, call: Call, body: Mapping[str, Any]) -> Tokens:
        """Return them."""
        return tokens_of(body["ids"])


@dataclass
class LateTokens(NamedTokens):
    """As `NamedTokens`, but not before they are let go."""

    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    named: int = 0

    async def tokens(self, call: Call, body: Mapping[str, Any]) -> Tokens:
        """Return them, in time."""
        self.asked += 1
        await self.let_go.wait()
        self.named += 1
        return await super().tokens(call, body)


def prompts_from(source: TokenSource | None) -> Prompts:
    """Return what reads prompts, with tokens from ``source``."""
    if source is None:
        return TextPrompts()
    return NamedPrompts(source, lambda _: None, TasksBeside())


@dataclass
class SomeReply:
    """A reply of a `SomeServer`."""

    parts: Sequence[bytes | Exception]
    status: int = 200
    headers: Headers = ()
    closed: int = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the parts; raise those that are errors."""
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1


@dataclass
class SomeServer:
    """Implements `Upstream`: does what a test says with each call."""

    name: str
    act: Callable[[Call], Reply | Exception]
    identity: str = "some"
    hold: asyncio.Event | None = None
    calls: list[Call] = field(default_factory=list)
    is_closed: bool = False

    async def send(self, call: Call) -> Reply:
        """Do it."""
        self.calls.append(call)
        if self.hold is not None:
            await self.hold.wait()
        done = self.act(call)
        if isinstance(done, Exception):
            raise done
        return done

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Do it."""
        del method, path, query, headers
        return await self.send(Call(Endpoint.CHAT, body, ()))

    async def aclose(self) -> None:
        """Note it."""
        self.is_closed = True


class Events(list[Event]):
    """An `EventSink` that keeps all."""

    def emit(self, event: Event) -> None:
        """Keep it."""
        self.append(event)

    def of(self, kind: type) -> list[Event]:
        """Return those of a kind."""
        return [event for event in self if isinstance(event, kind)]


@dataclass
class Steering:
    """A steered upstream and what it is made of."""

    upstream: SteeredUpstream
    servers: dict[str, SomeServer]
    known: Knowledge
    replicas: Replicas
    hints: NearHints
    events: Events
    clock: HandClock
    draining: set[str]

    @property
    def calls(self) -> dict[str, int]:
        """How many calls each server has had."""
        return {name: len(server.calls) for name, server in self.servers.items()}

    @property
    def loads(self) -> list[float]:
        """What each replica has to do."""
        return [self.known.loads.of(ReplicaName(name)) for name in self.servers]

    async def ask(self, call: Call) -> bytes:
        """Send a call and read the answer to its end."""
        reply = await self.upstream.send(call)
        try:
            return b"".join([chunk async for chunk in reply.chunks()])
        finally:
            await reply.aclose()
            await told()


async def told() -> None:
    """Let what was asked beside a call be taken, as far as it is there."""
    for _ in range(3):
        await asyncio.sleep(0)


def steering(
    *servers: SomeServer,
    source: TokenSource | None = None,
    block_tokens: int = 16,
    room_tokens: int = 100_000,
) -> Steering:
    """Put a steered upstream over ``servers``, which have their tokens from ``source``."""
    clock, events, hints, draining = HandClock(), Events(), NearHints(), set[str]()
    room = Room(room_tokens, block_tokens)
    residency = Residency({ReplicaName(server.name): room for server in servers})
    known = Knowledge(residency, Router(residency))

    async def nothing_new() -> None:
        """Operators have said nothing."""

    replicas = Replicas(
        "llm",
        [Replica(ReplicaName(server.name), server, server) for server in servers],
        known.loads,
        clock=clock,
        is_draining=draining.__contains__,
        on_lost=known.forget,
        hear=nothing_new,
    )
    upstream = SteeredUpstream(
        "llm",
        "some",
        replicas,
        Placing("llm", known, hints=hints, events=events),
        prompts=prompts_from(source),
        shaping=Shaping(()),
    )
    named = {server.name: server for server in servers}
    return Steering(upstream, named, known, replicas, hints, events, clock, draining)
