"""Clients that are slow, do not read, hang up half or leave: they harm nobody but themselves."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from support.gateway import Gateway, StartGateway, question
from support.metrics import reaches, total
from support.raw_http import RawClient, error_of, head, raw_client, request, unharmed

from stepwell.testing.fake_upstream import FakeUpstream, Script

IMPATIENT = {"server": {"request_timeout_seconds": 0.4}}
BODY = json.dumps(question("hi")).encode()
LONG = json.dumps(question("hi " * 700_000)).encode()
LENGTH = b"content-length: 4000000\r\n\r\n"

SLOW = {
    "request line": b"POST /v1/chat",
    "head": head() + b"x-slow: ",
    "body": head() + LENGTH + BODY,
    "long body": head() + LENGTH + LONG,
    "chunk": head() + b"transfer-encoding: chunked\r\n\r\n400000\r\n" + BODY,
    "old client": head(version="1.0") + LENGTH + BODY,
    "last request": head() + b"connection: close\r\n" + LENGTH + BODY,
    "vectors": head("/v1/embeddings") + LENGTH + BODY,
    "second request": request(BODY) + head() + LENGTH + BODY,
    "behind a repeat": request(BODY) * 2 + head() + b"x-slow: ",
}


async def drip(client: RawClient) -> None:
    """Send one byte after the other."""
    with contextlib.suppress(ConnectionError):
        while True:
            await client.send(b"a")
            await asyncio.sleep(0.02)


async def test_a_request_that_comes_drop_by_drop_is_cut_off(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """With 408, whatever part of it is slow, and however many came before."""

    async def cut_off(part: str) -> tuple[int, str, str, bytes]:
        async with raw_client(gateway) as client:
            await client.send(SLOW[part])
            dripping = asyncio.create_task(drip(client))
            while (answer := await client.answer()).status == 200:
                pass
            rest = await client.rest()
            dripping.cancel()
        return answer.status, error_of(answer)["code"], answer.headers["connection"], rest

    async with start_gateway(**IMPATIENT) as gateway:
        await gateway.post(BODY)
        async with unharmed(gateway, upstream):
            seen = await asyncio.gather(*map(cut_off, SLOW))
    assert seen == [(408, "request_timeout", "close", b"")] * len(SLOW)


async def test_a_slow_request_waits_for_the_answer_before_it(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """The first is answered, however long that takes; then the second is cut off."""
    hold = asyncio.Event()
    upstream.scripts["held"] = Script(hold=hold)
    async with start_gateway(**IMPATIENT) as gateway, raw_client(gateway) as client:
        await client.send(request(question("hi", model="held")) + head() + LENGTH + BODY)
        await asyncio.sleep(3 * IMPATIENT["server"]["request_timeout_seconds"])
        hold.set()
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 408


async def test_a_refused_upload_that_goes_on_is_answered_once(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """A second reply to one request would be taken for the answer to the next one."""
    server = {**IMPATIENT["server"], "max_body_bytes": 4_096}
    async with (
        start_gateway(server=server) as gateway,
        unharmed(gateway, upstream),
        raw_client(gateway) as client,
    ):
        await client.send(head() + b"expect: 100-continue\r\n" + LENGTH)
        dripping = asyncio.create_task(drip(client))
        assert (await client.answer()).status == 413
        assert await client.rest() == b""
        dripping.cancel()


@contextlib.asynccontextmanager
async def small_client(gateway: Gateway, room_bytes: int) -> AsyncIterator[RawClient]:
    """Connect with little room for unread bytes."""
    address = urlsplit(gateway.origin)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room_bytes)
    sock.setblocking(False)  # noqa: FBT003  (the socket module's own)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (str(address.hostname), address.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=room_bytes)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


async def test_a_client_that_does_not_read_is_cut_off(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """The model server is stopped, and nothing is stored."""
    upstream.scripts["talkative"] = Script(words=60_000)
    body = question("hi", model="talkative", stream=True)
    async with start_gateway(**IMPATIENT) as gateway, small_client(gateway, 4_096) as client:
        await client.send(request(body))
        await upstream.wait_for_calls(1)
        async with asyncio.timeout(10):
            await upstream.calls[0].abandoned.wait()
        assert (await gateway.ask("hi")).status == 200
        assert await total(gateway, "stepwell_requests_total", outcome="cancelled") == 1
        assert await total(gateway, "stepwell_stored_total") == 1


async def test_a_client_that_reads_slowly_gets_all(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """As long as it reads on: patience is with each pause, not with the whole answer."""
    upstream.scripts["talkative"] = Script(words=40_000)
    body = question("hi", model="talkative", stream=True)
    server = {"request_timeout_seconds": 1.0}
    async with start_gateway(server=server) as gateway, small_client(gateway, 32_768) as client:
        await client.send(request(body, fields=b"connection: close\r\n"))
        assert (await client.head())[0] == 200
        rest = b""
        async with asyncio.timeout(20):
            while piece := await client.reader.read(1 << 16):
                rest += piece
                await asyncio.sleep(0.02)
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert rest.count(b"word") == 40_000


async def test_half_a_hang_up_is_one(gateway: Gateway, upstream: FakeUpstream) -> None:
    """It cannot be told from a whole one: what is still asked is stopped, what is here is sent."""
    await gateway.post(BODY)
    hold = asyncio.Event()
    upstream.scripts["held"] = Script(hold=hold)
    async with raw_client(gateway) as client:
        await client.send(request(BODY))
        client.half_close()
        assert (await client.answer()).headers["x-cache"] == "HIT"
        assert await client.rest() == b""
    async with raw_client(gateway) as client:
        await client.send(request(question("hi", model="held")))
        await upstream.wait_for_calls(2)
        client.half_close()
        await upstream.calls[1].abandoned.wait()
        assert await client.rest() == b""
    hold.set()
    assert (await gateway.ask("hi", model="held")).headers["x-cache"] == "MISS"


STREAMED = {"stream": True}
FORMS = pytest.mark.parametrize("form", [{}, STREAMED], ids=["whole", "stream"])


@contextlib.asynccontextmanager
async def waiting_client(gateway: Gateway, form: dict[str, bool]) -> AsyncIterator[RawClient]:
    """Ask a question whose answer stops in the middle, and wait for the first of it."""
    async with raw_client(gateway) as client:
        await client.send(request(question("hi", model="stops", **form)))
        if form:
            await client.head()
            await client.chunk()
        yield client


def stop_in_the_middle(upstream: FakeUpstream, form: dict[str, bool]) -> asyncio.Event:
    go_on = asyncio.Event()
    script = Script(resume=go_on) if form else Script(hold=go_on)
    upstream.scripts["stops"] = script
    return go_on


@FORMS
async def test_when_the_only_client_leaves_the_model_server_is_stopped(
    gateway: Gateway, upstream: FakeUpstream, form: dict[str, bool]
) -> None:
    """Nothing is stored of the part that came; the next client gets a whole answer."""
    go_on = stop_in_the_middle(upstream, form)
    async with waiting_client(gateway, form):
        await upstream.wait_for_calls(1)
    async with asyncio.timeout(10):
        await upstream.calls[0].abandoned.wait()
    go_on.set()
    assert await total(gateway, "stepwell_stored_total") == 0
    again = await gateway.ask("hi", model="stops", **form)
    repeated = await gateway.ask("hi", model="stops", **form)
    assert [answer.headers["x-cache"] for answer in (again, repeated)] == ["MISS", "HIT"]
    assert repeated.body == again.body
    assert b"echo: " in again.body
    assert await total(gateway, "stepwell_requests_total", outcome="cancelled") == 1


async def test_a_client_that_leaves_with_more_on_its_way_is_missed_at_once(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """The request that is being answered is not the last one that came."""
    stop_in_the_middle(upstream, {})
    async with raw_client(gateway) as client:
        slow = request(question("hi", model="stops"))
        await client.send(slow + request(question("behind it")))
        await upstream.wait_for_calls(1)
        await until_gone(gateway, client)
    async with asyncio.timeout(10):
        await upstream.calls[0].abandoned.wait()
    assert upstream.call_count == 1


async def test_who_leaves_at_the_last_event_has_had_it_all(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Many clients hang up there, before the model server says that its reply has ended."""
    end = asyncio.Event()
    upstream.scripts["stops"] = Script(hold_end=end)
    async with raw_client(gateway) as client:
        await client.send(request(question("hi", model="stops", **STREAMED)))
        await client.head()
        while not (await client.chunk()).endswith(b"data: [DONE]\n\n"):
            pass
        await until_gone(gateway, client)
    end.set()
    await reaches(gateway, "stepwell_stored_total", 1)
    assert not upstream.calls[0].abandoned.is_set()
    assert (await gateway.ask("hi", model="stops", **STREAMED)).headers["x-cache"] == "HIT"
    assert upstream.call_count == 1


@FORMS
@pytest.mark.parametrize("who", ["leader", "follower"])
async def test_while_somebody_waits_the_model_server_goes_on(
    start_gateway: StartGateway, upstream: FakeUpstream, form: dict[str, bool], who: str
) -> None:
    """Who leaves takes nobody along, whether or not the call was made for it."""
    go_on = stop_in_the_middle(upstream, form)
    # Without a disk to look at first, a request that is being answered has joined the call.
    async with (
        start_gateway(stores={"disk": {"enabled": False}}) as gateway,
        waiting_client(gateway, form) as leader,
    ):
        await upstream.wait_for_calls(1)
        async with waiting_client(gateway, form) as follower:
            await reaches(gateway, "stepwell_in_flight", 2)
            await until_gone(gateway, leader if who == "leader" else follower)
            go_on.set()
            stays = follower if who == "leader" else leader
            if form:
                body = b""
                while chunk := await stays.chunk():
                    body += chunk
                assert body.endswith(b"data: [DONE]\n\n")
            else:
                assert (await stays.answer()).status == 200
        assert not upstream.calls[0].abandoned.is_set()
        assert (await gateway.ask("hi", model="stops", **form)).headers["x-cache"] == "HIT"
    assert upstream.call_count == 1


async def until_gone(gateway: Gateway, client: RawClient) -> None:
    """Let ``client`` leave, and wait until the gateway has noticed."""
    client.reset()
    await reaches(gateway, "stepwell_requests_total", 1, outcome="cancelled")


async def test_when_all_clients_leave_the_model_server_is_stopped(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """The last one counts."""
    stop_in_the_middle(upstream, STREAMED)
    async with waiting_client(gateway, STREAMED), waiting_client(gateway, STREAMED):
        await upstream.wait_for_calls(1)
    async with asyncio.timeout(10):
        await upstream.calls[0].abandoned.wait()
    assert upstream.call_count == 1


async def test_who_leaves_before_its_request_is_whole_is_not_heard(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Not even if what came is a whole body in itself."""
    async with unharmed(gateway, upstream):
        for half in (head()[:-9], head() + LENGTH + BODY, head("/v1/embeddings") + LENGTH + BODY):
            async with raw_client(gateway) as client:
                await client.send(half)
                client.half_close()
                assert await client.rest() == b""


async def test_many_idle_connections_harm_nobody(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Neither those that have said nothing, nor those in the middle of a word."""
    async with contextlib.AsyncExitStack() as connections:
        clients = [await connections.enter_async_context(raw_client(gateway)) for _ in range(600)]
        for number, client in enumerate(clients):
            await client.send([b"", b"PO", head() + LENGTH + BODY][number % 3])
        assert (await gateway.ask("hi")).status == 200
        for client in clients[::3]:
            await client.send(request(BODY))
            assert (await client.answer()).headers["x-cache"] == "HIT"
    assert upstream.call_count == 1


async def test_who_still_waits_when_the_gateway_stops_is_told(
    start_gateway: StartGateway, upstream: FakeUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    """In OpenAI's form, when the time for it is over; that is nothing to be logged as a failure."""
    upstream.scripts["stops"] = Script(hold=asyncio.Event())
    async with contextlib.AsyncExitStack() as clients:
        async with start_gateway() as gateway:
            client = await clients.enter_async_context(raw_client(gateway))
            await client.send(request(question("hi", model="stops")))
            await upstream.wait_for_calls(1)
            waiting = asyncio.create_task(client.answer())
        answer = await waiting
    assert (answer.status, error_of(answer)["code"]) == (503, "stopping")
    assert "Exception in ASGI application" not in caplog.text
    async with asyncio.timeout(10):
        await upstream.calls[0].abandoned.wait()
