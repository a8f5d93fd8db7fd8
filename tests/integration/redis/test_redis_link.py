"""One connection: order, late replies, ends of all kinds, bounds."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from support.redis_client import pretender

from stepwell.core.errors import StoreFull, StoreUnavailable
from stepwell.stores.redis import link as link_module
from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.link import Late, Link, Refused

LONG = 30.0
"""Longer than a test takes."""

SHORT = 0.02
"""Over before the server answers, as it answers when it is told to."""


class Server:
    """Reads what is sent, and says what it is told to say."""

    def __init__(self) -> None:
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.connected = asyncio.Event()
        self.leave = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.connected.set()
        await self.leave.wait()

    async def read(self, count: int) -> bytes:
        """Return the next bytes that come."""
        async with asyncio.timeout(LONG):
            return await self.reader.readexactly(count)

    def say(self, text: bytes) -> None:
        self.writer.write(text)


@pytest.fixture
async def server() -> Server:
    return Server()


async def connect(at: HostPort) -> Link:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Link, at.host, at.port))[1]


@pytest.fixture
async def link(server: Server) -> AsyncIterator[Link]:
    """A connection to ``server``."""
    async with pretender(server.serve) as at:
        link = await connect(at)
        await server.connected.wait()
        yield link
        link.close()
        link.close()
        await link.wait_closed()


PING = b"*1\r\n$4\r\nPING\r\n"


async def test_calls_of_one_turn_leave_together(link: Link, server: Server) -> None:
    """And their replies come to those who asked, in order, however they are cut."""
    calls = [link.ask("GET", number, timeout_seconds=LONG) for number in range(3)]
    assert await server.read(60) == b"".join(
        b"*2\r\n$3\r\nGET\r\n$1\r\n%d\r\n" % number for number in range(3)
    )
    server.say(b"$1\r\na\r\n$2")
    assert await calls[0] == b"a"
    server.say(b"\r\nbb\r\n:3\r\n")
    assert await asyncio.gather(*calls[1:]) == [b"bb", 3]


async def test_replies_of_all_kinds(link: Link, server: Server) -> None:
    """Bytes stay bytes; an error within a list stands in it."""
    call = link.ask("EXEC", timeout_seconds=LONG)
    server.say(b"*4\r\n+OK\r\n$-1\r\n*1\r\n:7\r\n-ERR no\r\n")
    ok, none, numbers, error = await call  # type: ignore[misc]
    assert (ok, none, numbers, str(error)) == (b"OK", None, [7], "ERR no")


async def test_error_is_raised_by_its_code(link: Link, server: Server) -> None:
    """The connection goes on."""
    refused, fine = (link.ask("PING", timeout_seconds=LONG) for _ in range(2))
    server.say(b"-OOM command not allowed\r\n+PONG\r\n")
    with pytest.raises(Refused, match=r"^OOM command not allowed$") as caught:
        await refused
    assert (caught.value.code, await fine) == ("OOM", b"PONG")


async def test_words_of_a_command_are_not_repeated(link: Link, server: Server) -> None:
    """An old server does so with a password, in an error that is logged."""
    call = link.ask("HELLO", timeout_seconds=LONG)
    server.say(b"-ERR unknown command 'HELLO', with args beginning with: 'AUTH' 'SECRET'\r\n")
    with pytest.raises(Refused, match=r"unknown command 'HELLO'$"):
        await call


async def test_a_late_reply_is_nobodys(link: Link, server: Server) -> None:
    """It does not reach the next who asks."""
    late = link.ask("PING", timeout_seconds=SHORT)
    with pytest.raises(Late, match="did not answer in time"):
        await late
    next_call = link.ask("PING", timeout_seconds=LONG)
    server.say(b"+late\r\n+mine\r\n")
    assert await next_call == b"mine"


async def test_a_reply_is_nobodys_if_its_caller_left(link: Link, server: Server) -> None:
    """As a late one."""
    left = link.ask("PING", timeout_seconds=LONG)
    next_call = link.ask("PING", timeout_seconds=LONG)
    left.cancel()
    server.say(b"+nobody's\r\n+mine\r\n")
    assert await next_call == b"mine"


async def test_each_call_has_its_own_time(link: Link, server: Server) -> None:
    """A hasty one that comes later is late first."""
    patient = link.ask("PING", timeout_seconds=LONG)
    hasty = link.ask("PING", timeout_seconds=SHORT)
    with pytest.raises(Late):
        await hasty
    server.say(b"+PONG\r\n")
    assert await patient == b"PONG"


async def test_what_is_late_is_counted_by_time(link: Link, server: Server) -> None:
    """However many wait, and however few come anew; a reply in time ends the row."""
    rows: list[int] = []
    third = asyncio.Event()

    def on_late(in_a_row: int) -> None:
        rows.append(in_a_row)
        if in_a_row == 3:
            third.set()

    link.on_late = on_late
    for _ in range(10):
        link.ask("PING", timeout_seconds=SHORT)
    async with asyncio.timeout(LONG):
        await third.wait()
    in_time = link.ask("PING", timeout_seconds=LONG)
    server.say(b"+late\r\n" * 10 + b"+PONG\r\n")
    assert await in_time == b"PONG"
    assert rows == [*range(1, len(rows) + 1)]
    rows.clear()
    with pytest.raises(Late):
        await link.ask("PING", timeout_seconds=SHORT)
    assert rows[0] == 1


async def test_replies_that_are_always_late_end_no_row(link: Link, server: Server) -> None:
    """A server that is too slow for us is as good as one that is silent."""
    rows: list[int] = []
    link.on_late = rows.append
    for _ in range(3):
        call = link.ask("PING", timeout_seconds=SHORT)
        with pytest.raises(Late):
            await call
        server.say(b"+late\r\n")
    assert rows[-1] >= 3


async def test_silence_is_noticed_if_all_callers_leave(link: Link) -> None:
    """A caller who waits less than the server may take says nothing of the server; time does."""
    silence = asyncio.Event()
    link.on_late = lambda _: silence.set()
    link.ask("PING", timeout_seconds=SHORT).cancel()
    async with asyncio.timeout(LONG):
        await silence.wait()


async def test_a_pause_of_ours_makes_nobody_late(link: Link, server: Server) -> None:
    """What came while this process was busy is read before anybody looks at the clock."""

    call = link.ask("PING", timeout_seconds=SHORT)
    await server.read(len(PING))
    server.say(b"+PONG\r\n")
    time.sleep(2 * SHORT)  # noqa: ASYNC251  (that is the point)
    assert await call == b"PONG"


async def test_time_before_it_is_sent_is_not_the_servers(link: Link, server: Server) -> None:
    """A turn of the loop in which much else is done may take longer than a reply."""
    calls = [link.ask("PING", timeout_seconds=seconds) for seconds in (LONG, 5 * SHORT)]
    time.sleep(10 * SHORT)  # noqa: ASYNC251
    await server.read(2 * len(PING))
    server.say(b"+one\r\n+two\r\n")
    assert await asyncio.gather(*calls) == [b"one", b"two"]


async def test_end_of_the_connection_is_told_to_all(link: Link, server: Server) -> None:
    """To those who wait, and to those who come."""
    calls = [link.ask("PING", timeout_seconds=LONG) for _ in range(2)]
    await server.read(2 * len(PING))
    server.leave.set()
    for call in calls:
        with pytest.raises(StoreUnavailable, match="broke: it closed the connection"):
            await call
    assert await link.ended == "it closed the connection"
    with pytest.raises(StoreUnavailable, match="no connection: it closed the connection"):
        link.ask("PING", timeout_seconds=LONG)


async def test_closing_is_told_to_all(link: Link) -> None:
    """Also what has not been sent yet."""
    call = link.ask("PING", timeout_seconds=LONG)
    link.close()
    with pytest.raises(StoreUnavailable, match="it was closed here"):
        await call
    assert not link.is_open


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak as Redis does"),
        (b"+PONG\r\n+PONG\r\n", "something nobody asked for"),
        (b"+PONG\r\n-ERR max number of clients reached\r\n", "it said ERR max number of clients"),
    ],
)
async def test_what_is_no_answer_ends_it(
    link: Link, server: Server, said: bytes, reason: str
) -> None:
    """Else later replies would reach the wrong callers."""
    call = link.ask("PING", timeout_seconds=LONG)
    await server.read(len(PING))
    server.say(said)
    await asyncio.gather(call, return_exceptions=True)
    assert reason in await link.ended


async def test_calls_are_bounded(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent server is not asked without end."""
    monkeypatch.setattr(link_module, "MAX_WAITING", 2)
    for _ in range(2):
        link.ask("PING", timeout_seconds=LONG)
    with pytest.raises(StoreFull, match="2 calls are under way"):
        link.ask("PING", timeout_seconds=LONG)


async def test_bytes_are_bounded(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one turn, which the kernel has not been offered yet."""
    monkeypatch.setattr(link_module, "MAX_UNSENT_BYTES", 1_000)
    link.ask("PING", timeout_seconds=LONG)  # leaves at once, as it is alone
    link.ask("SET", "key", b"x" * 900, timeout_seconds=LONG)
    with pytest.raises(StoreFull, match="wait for a server that does not read"):
        link.ask("SET", "key", b"x" * 900, timeout_seconds=LONG)


async def test_bytes_a_server_does_not_read_are_bounded(server: Server, link: Link) -> None:
    """Those the kernel did not take, too."""
    value = b"x" * (link_module.MAX_UNSENT_BYTES // 4)

    async def send_on() -> None:
        for _ in range(100):
            link.ask("SET", "key", value, timeout_seconds=LONG)
            await asyncio.sleep(0)

    with pytest.raises(StoreFull):
        await send_on()


async def test_what_cannot_be_a_word_is_the_callers_mistake(link: Link, server: Server) -> None:
    """It leaves no gap among those who wait."""
    with pytest.raises(TypeError):
        link.ask("SET", None, timeout_seconds=LONG)  # type: ignore[arg-type]
    call = link.ask("PING", timeout_seconds=LONG)
    server.say(b"+PONG\r\n")
    assert await call == b"PONG"


async def test_a_reply_of_many_reads(link: Link, server: Server) -> None:
    """As long as an answer may be."""
    call = link.ask("GET", "key", timeout_seconds=LONG)
    value = bytes(range(256)) * 40_000
    server.say(b"$%d\r\n%b\r\n" % (len(value), value))
    assert await call == value


async def test_a_call_without_time(link: Link, server: Server) -> None:
    """It is late at once, and in nobody's way: after a redirection little time may be left."""
    hasty = link.ask("PING", timeout_seconds=0.0)
    patient = link.ask("PING", timeout_seconds=LONG)
    with pytest.raises(Late):
        await hasty
    server.say(b"+late\r\n+mine\r\n")
    assert await patient == b"mine"
