"""Bytes that were a repeat before are answered unread, but only where they are a request."""

import asyncio
from collections.abc import Iterable

import pytest
from support.gateway import Answer, Gateway, StartGateway, question
from support.metrics import total
from support.raw_http import RawClient, error_of, head, raw_client, request

from stepwell.gateway import protocol
from stepwell.gateway.hot import HotPath
from stepwell.testing.fake_upstream import FakeUpstream, Script

KNOWN = request(question("known"))
OTHER = request(question("other"))


class Reads(list[bytes]):
    """The bodies of the requests that were read."""

    def since(self, count: int) -> int:
        """Return how many there are beyond ``count``."""
        return len(self) - count


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """What the protocol had to read."""
    seen = Reads()
    read = HotPath.digest

    def digest(
        path: HotPath, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> bytes:
        seen.append(body)
        return read(path, target, headers, body)

    monkeypatch.setattr(HotPath, "digest", digest)
    return seen


async def say(client: RawClient, data: bytes) -> Answer:
    """Send ``data`` at once and return the first reply."""
    await client.send(data)
    return await client.answer()


async def make_known(gateway: Gateway) -> Answer:
    """Ask until the request is known; return its answer."""
    async with raw_client(gateway) as client:
        seen = [(await say(client, KNOWN)).headers["x-cache"] for _ in range(2)]
        assert seen == ["MISS", "HIT"]
        return await say(client, KNOWN)


def without_time(answer: Answer) -> dict[str, str]:
    """Return the fields of a reply but for those that change with time."""
    changing = {"age", "date", "cache-status"}
    return {name: value for name, value in answer.headers.items() if name not in changing}


async def test_known_bytes_are_not_read_again(gateway: Gateway, reads: Reads) -> None:
    """From the third time on, over any connection; the reply is the one that reading gives."""
    async with raw_client(gateway) as client:
        answers = [await say(client, KNOWN) for _ in range(4)]
    async with raw_client(gateway) as client:
        answers += [await say(client, KNOWN), await say(client, OTHER), await say(client, KNOWN)]
    assert [answer.headers["x-cache"] for answer in answers] == [
        *["MISS", "HIT", "HIT", "HIT"],
        *["HIT", "MISS", "HIT"],
    ]
    assert len(reads) == 3
    hits = [answer for answer in answers if answer.headers["x-cache"] == "HIT"]
    assert len({answer.body for answer in hits}) == 1
    assert all(without_time(answer) == without_time(hits[0]) for answer in hits)


async def test_known_bytes_are_counted(gateway: Gateway) -> None:
    """Like any other hit."""
    await make_known(gateway)
    assert await total(gateway, "stepwell_requests_total", outcome="hit", layer="exact") == 2


async def test_known_bytes_in_a_body_are_a_body(
    gateway: Gateway, upstream: FakeUpstream, reads: Reads
) -> None:
    """Somebody's text holds a request of somebody else's, and ends where that begins."""
    await make_known(gateway)
    count = len(reads)
    begin = head() + b"content-length: %d\r\n\r\n" % len(KNOWN)
    in_chunks = head() + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(KNOWN)
    for start, end in ((begin, b""), (in_chunks, b"\r\n0\r\n\r\n")):
        async with raw_client(gateway) as client:
            for piece in (start, KNOWN, end):
                await client.send(piece)
                await asyncio.sleep(0.05)
            answer = await client.answer()
        assert (answer.status, error_of(answer)["code"]) == (400, "invalid_json")
    assert reads[count:] == [KNOWN, KNOWN]
    assert upstream.call_count == 1


async def test_known_bytes_wait_for_what_is_before_them(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """A reply that is still to come, comes first."""
    known = await make_known(gateway)
    slow = asyncio.Event()
    upstream.scripts["held"] = Script(hold=slow)
    async with raw_client(gateway) as client:
        await client.send(request(question("slow", model="held")))
        await upstream.wait_for_calls(2)
        await client.send(KNOWN)
        await asyncio.sleep(0.05)
        slow.set()
        answers = [await client.answer() for _ in range(2)]
    assert [answer.headers["x-cache"] for answer in answers] == ["MISS", "HIT"]
    assert answers[1].body == known.body


@pytest.mark.parametrize(
    "behind",
    [KNOWN, OTHER[:20], b"\0nonsense\r\n\r\n", b"\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"],
    ids=["itself", "half a request", "nonsense", "a line end", "another"],
)
async def test_what_comes_with_known_bytes_is_read(gateway: Gateway, behind: bytes) -> None:
    """A read with more in it gets each time what it got the first time."""
    await make_known(gateway)
    seen = []
    for _ in range(4):
        async with raw_client(gateway) as client:
            await client.send(KNOWN + behind)
            client.half_close()
            seen.append(b"".join(line for line in (await client.rest()).splitlines() if line))
    told = [reply.count(b"HTTP/1.1 ") for reply in seen]
    assert len(set(told)) == 1
    assert all(reply.startswith(b"HTTP/1.1 200 OK") for reply in seen)
    refused = [reply.count(b"bad_http") for reply in seen]
    assert refused == [int(behind.startswith(b"\0"))] * 4


async def test_known_bytes_of_what_was_forgotten_are_asked_anew(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Nothing that was invalidated comes back, and what came in its place is served."""
    await make_known(gateway)
    body = {"everything": True, "dry_run": False}
    assert (await gateway.post(body, path="/admin/invalidate", key=None)).status == 200
    async with raw_client(gateway) as client:
        seen = [(await say(client, KNOWN)).headers["x-cache"] for _ in range(3)]
    assert seen == ["MISS", "HIT", "HIT"]
    assert upstream.call_count == 2


async def test_known_bytes_are_the_same_to_the_last_one(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Another key, another word, another directive."""
    await make_known(gateway)
    others = [
        KNOWN.replace(b"sk-test", b"sk-tesu"),
        KNOWN.replace(b"known", b"knowm"),
        KNOWN.replace(b"host: gateway\r\n", b"host: gateway\r\ncache-control: no-cache\r\n"),
    ]
    async with raw_client(gateway) as client:
        seen = [(await say(client, other)).headers["x-cache"] for other in others]
    assert seen == ["MISS", "MISS", "BYPASS"]
    assert upstream.call_count == 4


async def test_a_connection_that_is_to_be_closed_is_closed_each_time(gateway: Gateway) -> None:
    """However often the same bytes said so."""
    closing = KNOWN.replace(b"host: gateway\r\n", b"host: gateway\r\nconnection: close\r\n")
    await make_known(gateway)
    for _ in range(3):
        async with raw_client(gateway) as client:
            assert (await say(client, closing)).headers["x-cache"] == "HIT"
            assert await client.rest() == b""


async def test_a_restart_knows_nothing(start_gateway: StartGateway, reads: Reads) -> None:
    """What bytes came to is one process's memory."""
    async with start_gateway() as gateway:
        await make_known(gateway)
    count = len(reads)
    async with start_gateway() as gateway, raw_client(gateway) as client:
        assert (await say(client, KNOWN)).headers["x-cache"] == "HIT"
    assert reads.since(count) == 1


async def test_a_refused_connection_is_not_listened_to(gateway: Gateway) -> None:
    """Not even to what is known."""
    await make_known(gateway)
    async with raw_client(gateway) as client:
        refused = await say(client, b"\0nonsense\r\n\r\n")
        await client.send(KNOWN)
        assert (refused.status, await client.rest()) == (400, b"")


async def test_line_ends_between_known_bytes_do_not_add_up(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients send one behind each body; it belongs to no head."""
    monkeypatch.setattr(protocol, "MAX_HEAD_BYTES", 60)
    await make_known(gateway)
    async with raw_client(gateway) as client:
        for _ in range(20):
            assert (await say(client, KNOWN)).status == 200
            await client.send(b"\r\n")
            await asyncio.sleep(0.005)
        await client.send(OTHER[:30])
        await asyncio.sleep(0.05)
        assert (await say(client, OTHER[30:])).status == 200
