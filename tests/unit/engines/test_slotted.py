"""Calls that say which slot is to serve them."""

import json
from collections.abc import AsyncIterator

import pytest

from stepwell.core.errors import UpstreamBroken
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Headers
from stepwell.engines.slotted import SlottedUpstream


class Reply:
    """A reply of nothing."""

    status = 200
    headers: Headers = ()
    closed = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"{}"

    async def aclose(self) -> None:
        self.closed += 1


class Upstream:
    """Remembers what it was sent."""

    name = "embedded"
    identity = "who"

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.fails = False
        self.closed = False

    async def send(self, call: Call) -> Reply:
        self.bodies.append(call.body)
        if self.fails:
            raise UpstreamBroken("broke", upstream=self.name)
        return Reply()

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        self.bodies.append(body)
        return Reply()

    async def aclose(self) -> None:
        self.closed = True

    def slots(self) -> list[int | None]:
        return [json.loads(body).get("id_slot") for body in self.bodies]


def call(text: str = "hi", **members: object) -> Call:
    return Call(Endpoint.CHAT, json.dumps({"messages": text, **members}).encode(), ())


async def test_each_call_at_a_time_has_a_slot_of_its_own() -> None:
    """One more than there are is left to the server; a closed reply frees its slot, once."""
    inner = Upstream()
    upstream = SlottedUpstream(inner, 2)
    assert (upstream.name, upstream.identity) == ("embedded", "who")
    replies = [await upstream.send(call(text)) for text in ("a", "b", "c")]
    assert inner.slots() == [0, 1, None]
    assert [chunk async for chunk in replies[1].chunks()] == [b"{}"]
    await replies[1].aclose()
    await replies[1].aclose()
    await upstream.send(call("d"))
    await upstream.send(call("e"))
    assert inner.slots()[3:] == [1, None]
    assert json.loads(inner.bodies[0]) == {"messages": "a", "id_slot": 0}
    await upstream.aclose()
    assert inner.closed


async def test_a_call_that_fails_frees_its_slot() -> None:
    """It was never served there."""
    inner = Upstream()
    upstream = SlottedUpstream(inner, 1)
    inner.fails = True
    for _ in range(2):
        with pytest.raises(UpstreamBroken):
            await upstream.send(call())
    assert inner.slots() == [0, 0]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"{ }", b'{"id_slot":7,"messages":[]}'])
async def test_what_cannot_be_told_is_sent_as_it_is(body: bytes) -> None:
    """No object with a member, or one whose caller names a slot itself."""
    inner = Upstream()
    await SlottedUpstream(inner, 1).send(Call(Endpoint.CHAT, body, ()))
    assert inner.bodies == [body]


async def test_other_requests_have_no_slot() -> None:
    """They are sent as they are."""
    inner = Upstream()
    await SlottedUpstream(inner, 1).forward("GET", "models", "", (), b"")
    assert inner.bodies == [b""]
