"""Which replica reads which standing prompt, and when."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import orjson
import pytest

from stepwell.core.entry import Usage
from stepwell.core.errors import UpstreamUnreachable
from stepwell.core.events import Degraded, Event, WarmedUp
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Headers
from stepwell.core.steering import Agreed, Hold, ReplicaReport, Wanted
from stepwell.pipeline.short_reply import MAX_REPLY_BYTES, Refused
from stepwell.pipeline.warm_up import (
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    StandingPrompt,
    WarmUp,
    read_once,
)
from stepwell.testing.clock import HandClock

READY = ReplicaReport(
    upstream="llm",
    replica="a",
    wanted=Wanted.SERVING,
    condition="ready",
    down_seconds=0.0,
    load=0.0,
    held_tokens=0,
    losses=0,
    agreed=Agreed(0, 0, 0, 0, 0),
)
USAGE = Usage(100, 1, 64)
ANSWER = orjson.dumps(
    {
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 64},
        }
    }
)


@dataclass
class FakeReply:
    body: bytes = ANSWER
    status: int = 200
    headers: Headers = ()
    is_closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.body), 65_536):
            yield self.body[at : at + 65_536]

    async def aclose(self) -> None:
        self.is_closed = True


@dataclass
class FakeFleet:
    """An upstream of replicas whose state a test sets."""

    replicas: dict[str, ReplicaReport]
    reads: list[tuple[str, bytes]] = field(default_factory=list)
    holds: list[tuple[str, Hold]] = field(default_factory=list)
    unreachable: set[str] = field(default_factory=set)
    reply: FakeReply = field(default_factory=FakeReply)

    def reports(self) -> Sequence[ReplicaReport]:
        return list(self.replicas.values())

    async def send_to(self, replica: str, call: Call) -> FakeReply:
        if replica in self.unreachable:
            raise UpstreamUnreachable("nobody there", upstream="llm")
        self.reads.append((replica, call.body))
        return self.reply

    async def hold_at(self, replica: str, call: Call, hold: Hold) -> FakeReply:
        self.holds.append((replica, hold))
        return await self.send_to(replica, call)

    def change(self, name: str, **fields: object) -> None:
        self.replicas[name] = replace(self.replicas[name], **fields)  # type: ignore[arg-type]

    def take_reads(self) -> list[tuple[str, bytes]]:
        reads, self.reads = self.reads, []
        return reads


class Events(list[Event]):
    def emit(self, event: Event) -> None:
        self.append(event)


@dataclass
class Case:
    fleet: FakeFleet
    warm_up: WarmUp
    clock: HandClock
    events: Events

    async def reads(self, after_seconds: float = 0.0) -> list[tuple[str, bytes]]:
        """Let time pass, look once, and return what was read."""
        self.clock.seconds += after_seconds
        await self.warm_up.look()
        return self.fleet.take_reads()


def prompt(text: str = "x", every_seconds: float = 0.0) -> StandingPrompt:
    call = Call(Endpoint.CHAT, text.encode(), ())
    return StandingPrompt(f"prefix.warm.{text}", "llm", call, every_seconds)


async def nothing_new() -> None:
    """Operators have said nothing."""


def case(*prompts: StandingPrompt, names: str = "ab") -> Case:
    fleet = FakeFleet({name: replace(READY, replica=name) for name in names})
    clock, events = HandClock(), Events()
    warm_up = WarmUp(prompts, {"llm": fleet}, hear=nothing_new, clock=clock, events=events)
    return Case(fleet, warm_up, clock, events)


async def test_each_replica_reads_each_prompt_once() -> None:
    one = case(prompt("x"), prompt("y"))
    assert await one.reads() == [("a", b"x"), ("b", b"x"), ("a", b"y"), ("b", b"y")]
    assert await one.reads(after_seconds=1e6) == []
    assert one.events[0] == WarmedUp("llm", "a", "prefix.warm.x", 0.0, USAGE)
    assert len(one.events) == 4


async def test_again_and_again_when_told_to() -> None:
    one = case(prompt(every_seconds=600), names="a")
    assert await one.reads() == [("a", b"x")]
    assert await one.reads(after_seconds=599) == []
    assert await one.reads(after_seconds=1) == [("a", b"x")]


@pytest.mark.parametrize(
    "state", [{"load": 1.0}, {"condition": "draining"}, {"condition": "down", "losses": 1}]
)
async def test_one_that_is_not_free_is_passed_over_until_it_is(state: dict[str, object]) -> None:
    one = case(prompt())
    one.fleet.change("a", **state)
    assert await one.reads() == [("b", b"x")]
    one.fleet.change("a", load=0.0, condition="ready")
    assert await one.reads() == [("a", b"x")]


async def test_one_that_was_lost_reads_again() -> None:
    one = case(prompt("x"), prompt("y"))
    await one.reads()
    one.fleet.change("b", losses=1)
    assert await one.reads() == [("b", b"x"), ("b", b"y")]
    assert await one.reads() == []


async def test_one_that_is_lost_while_it_reads_reads_again() -> None:
    one = case(prompt(), names="a")
    one.fleet.reply = FakeReply(status=503)
    await one.reads()
    one.fleet.change("a", losses=3)
    one.fleet.reply = FakeReply()
    assert await one.reads(FIRST_RETRY_SECONDS) == [("a", b"x")]
    assert await one.reads() == []


async def test_failures_are_told_and_tried_again_later_and_later() -> None:
    one = case(prompt("x"), prompt("y"), names="ab")
    one.fleet.unreachable.add("a")
    assert await one.reads() == [("b", b"x"), ("b", b"y")]
    failures = [event for event in one.events if isinstance(event, Degraded)]
    assert failures[0] == Degraded("warm-up.llm", "prefix.warm.x: nobody there")
    assert len(failures) == 2
    waits = []
    for _ in range(6):
        one.events.clear()
        waited = 0
        while not one.events:
            await one.reads(after_seconds=1)
            waited += 1
        waits.append(waited)
    assert waits == [5, 10, 20, 40, LONGEST_RETRY_SECONDS, LONGEST_RETRY_SECONDS]
    one.fleet.unreachable.clear()
    assert await one.reads(LONGEST_RETRY_SECONDS) == [("a", b"x"), ("a", b"y")]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (FakeReply(status=404), "a answered 404"),
        (FakeReply(b"x" * (MAX_REPLY_BYTES + 1)), "a answered with more"),
    ],
)
async def test_what_is_no_answer_is_refused_and_its_connection_closed(
    reply: FakeReply, said: str
) -> None:
    fleet = FakeFleet({"a": READY}, reply=reply)
    with pytest.raises(Refused, match=said):
        await read_once(fleet, "a", prompt())
    assert reply.is_closed


async def test_one_that_does_not_say_what_it_cost() -> None:
    fleet = FakeFleet({"a": READY}, reply=FakeReply(b"{}"))
    assert await read_once(fleet, "a", prompt()) == Usage()


async def test_operators_are_heard_first() -> None:
    one = case(prompt(), names="a")

    async def drain() -> None:
        one.fleet.change("a", condition="draining")

    upstreams = {"llm": one.fleet}
    await WarmUp([prompt()], upstreams, hear=drain, clock=one.clock, events=one.events).look()
    assert one.fleet.reads == []


async def test_what_is_pinned_is_read_again_before_it_may_leave() -> None:
    hold = Hold(ttl_seconds=100, is_public=True)
    one = case(replace(prompt(every_seconds=1_000), hold=hold), names="a")
    assert await one.reads() == [("a", b"x")]
    assert await one.reads(after_seconds=49) == []
    assert await one.reads(after_seconds=2) == [("a", b"x")]
    assert one.fleet.holds == [("a", hold)] * 2


async def test_what_is_public_and_not_pinned_is_read_once() -> None:
    one = case(replace(prompt(), hold=Hold(0, is_public=True)), names="a")
    assert await one.reads() == [("a", b"x")]
    assert await one.reads(after_seconds=1e6) == []
