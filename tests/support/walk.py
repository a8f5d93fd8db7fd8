"""Parts of a walk for tests: questions, a store and a model server that do as they are told."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from stepwell.core.clock import Clock
from stepwell.core.entry import Phrasing, SourceValue
from stepwell.core.errors import StoreUnavailable
from stepwell.core.events import Event
from stepwell.core.names import CacheKey, Endpoint, Form, Namespace
from stepwell.core.ports import Call, EventSink, Headers, Paraphrases
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.calls import Calls
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.lookups import Lookups
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.renderings import Renderings
from stepwell.pipeline.runner import Runner
from stepwell.policy.classes import GENERAL, RequestClass
from stepwell.stores.alone import Alone
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_key, make_namespace
from stepwell.wire.controls import Directives
from stepwell.wire.shape import Shape

JSON = Shape(Form.JSON)
STREAM = Shape(Form.SSE, include_usage=False)
STREAM_WITH_USAGE = Shape(Form.SSE, include_usage=True)


def make_question(
    name: str = "question",
    *,
    shape: Shape = JSON,
    directives: Directives | None = None,
    request_class: RequestClass = GENERAL,
    bypass: str | None = None,
    sources: tuple[SourceValue, ...] = (),
    tags: tuple[str, ...] = (),
    phrasing: Phrasing | None = None,
) -> Question:
    """Return a question; everything not given is as for a plain chat request."""
    return Question(
        endpoint=Endpoint.CHAT,
        model="model",
        shape=shape,
        directives=directives or Directives(),
        request_class=request_class,
        class_by="default: no rule holds",
        upstream="upstream",
        namespace=None if bypass else make_namespace("tenant"),
        key=None if bypass else make_key(name),
        bypass=bypass,
        sources=sources,
        tags=tags,
        phrasing=phrasing,
    )


@dataclass
class Heard:
    """An event sink that remembers."""

    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Take one event."""
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


class Forgetful(Alone):
    """A store that cannot be told of a source."""

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        """Fail."""
        raise StoreUnavailable("the disk is gone")


def make_exact(
    clock: Clock, events: Heard, *, store: Callable[[MemoryStore], Alone] = Alone
) -> ExactLayer:
    """Return an exact layer in this process alone."""
    memory = MemoryStore(Lru(), max_entries=1_000, max_bytes=1 << 24, clock=clock, events=Heard())
    alone = store(memory)
    return ExactLayer(memory, alone, alone, events=events)


def completion(text: str = "Yes.", *, finish_reason: str = "stop") -> bytes:
    """Return a whole chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish_reason,
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def stream_of(*words: str) -> list[bytes]:
    """Return the events of a streamed chat completion, usage and ``[DONE]`` at its end."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    chunks: list[object] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 3, "completion_tokens": len(words), "total_tokens": 3 + len(words)}
    chunks.append({"choices": [], "usage": usage})
    return [
        *(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks),
        b"data: [DONE]\n\n",
    ]


def make_flights(exact: ExactLayer, *, clock: Clock, events: EventSink, **more: Any) -> Flights:
    """Return flights whose own calls keep answers in ``exact``."""
    calls = Calls(exact, clock=clock, events=events)
    return Flights(exact, calls, clock=clock, events=events, **more)


def make_runner(
    exact: ExactLayer,
    flights: Flights,
    *,
    clock: HandClock,
    events: Heard,
    max_wait_seconds: float = 60.0,
    paraphrases: Paraphrases | None = None,
) -> Runner:
    """Return a runner with room for some renderings."""
    renderings = Renderings(max_bytes=100_000)
    return Runner(
        exact,
        Lookups(exact, renderings, clock=clock, paraphrases=paraphrases),
        flights,
        renderings,
        clock=clock,
        events=events,
        max_wait_seconds=max_wait_seconds,
    )


class HandReply:
    """A `Reply` that the test writes."""

    def __init__(self, status: int, form: Form) -> None:
        self.status = status
        types = {Form.JSON: "application/json", Form.SSE: "text/event-stream"}
        self.headers: Headers = (("content-type", types[form]), ("x-request-id", "req_1"))
        self.closed = False
        self.asked_for = 0
        """Chunks that were waited for."""
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def say(self, *chunks: bytes) -> None:
        """Send some of the body."""
        for chunk in chunks:
            self._chunks.put_nowait(chunk)

    def end(self, error: Exception | None = None) -> None:
        """Send the body's end, or break off."""
        self._chunks.put_nowait(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it is written."""
        while True:
            self.asked_for += 1
            chunk = await self._chunks.get()
            if chunk is None:
                return
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def aclose(self) -> None:
        """Note that nobody reads any more."""
        self.closed = True


class HandUpstream:
    """An `Upstream` whose replies the test gives, one for each call, in order."""

    name = "upstream"
    identity = "upstream"

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.stopped = 0
        """Calls that were cancelled before they had a reply."""
        self._arrival = asyncio.Condition()
        self._replies: asyncio.Queue[HandReply | Exception] = asyncio.Queue()

    def reply(
        self, body: bytes | None = None, *, status: int = 200, form: Form = Form.JSON
    ) -> HandReply:
        """Give the next reply; with ``body`` it is whole."""
        reply = HandReply(status, form)
        if body is not None:
            reply.say(body)
            reply.end()
        self._replies.put_nowait(reply)
        return reply

    def fail(self, error: Exception) -> None:
        """Let the next call fail before its reply begins."""
        self._replies.put_nowait(error)

    async def wait_for_calls(self, count: int) -> None:
        """Return once so many calls were made."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.calls) >= count)

    async def send(self, call: Call) -> HandReply:
        """Wait for the test to give a reply."""
        self.calls.append(call)
        async with self._arrival:
            self._arrival.notify_all()
        try:
            reply = await self._replies.get()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> HandReply:
        """Not used by the walk."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Do nothing."""


def make_ask(question: Question, upstream: HandUpstream) -> Ask:
    """Return a question and how to put it to ``upstream``."""
    plain = Call(question.endpoint, b'{"model":"model"}', ())
    asking = plain
    if question.shape == STREAM:
        asking = Call(question.endpoint, b'{"stream_options":{"include_usage":true}}', ())
    return Ask(question, upstream, asking, plain)


async def settle() -> None:
    """Let every task run until it waits for something outside."""
    for _ in range(50):
        await asyncio.sleep(0)


def key_of(question: Question) -> CacheKey:
    """Return the key of a question that has one."""
    assert question.key is not None
    return question.key
