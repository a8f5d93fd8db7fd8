"""Two processes of one machine agree on who flies, and read each other's flights."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell.core.entry import SourceValue
from stepwell.core.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from stepwell.core.names import CacheKey, Endpoint, Form, Position
from stepwell.pipeline.circle import Followed, Lead
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.pipeline.leg import BorrowedLeg
from stepwell.pipeline.neighbours import Neighbours, SocketLeader
from stepwell.testing.entries import make_key

KEY = make_key("question")
SOURCES = (SourceValue("faq", "v1"),)
MADE = Made(Position(5), SOURCES, Position(3))

NEIGHBOUR = """
import asyncio, sys
from pathlib import Path
from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamTimeout
from stepwell.core.names import Form, Position
from stepwell.pipeline.circle import Lead
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.pipeline.neighbours import Neighbours
from stepwell.testing.entries import make_key

MADE = Made(Position(5), (SourceValue("faq", "v1"),), Position(3))
flights, leads = {}, {}

async def obey(neighbours, verb, name, word):
    key = make_key(name)
    flight = flights.get(key)
    match verb:
        case "claim":
            turn = await neighbours.claim(key)
            if not isinstance(turn, Lead):
                return Path(turn.socket).stem
            leads[name] = turn
        case "release":
            leads.pop(name).release()
        case "fly":
            flights[key] = Flight(MADE, max_kept_bytes=2**30)
        case "begin":
            flight.begin(Head(int(word), (("x-request-id", "req_1"),), Form.SSE))
        case "begin_json":
            flight.begin(Head(int(word), (), Form.JSON))
        case "say":
            await flight.extend(word.replace("\\\\n", "\\n").replace("_", " ").encode())
        case "land":
            flight.finish(Landed(None))
        case "crash":
            errors = {
                "late": UpstreamTimeout("it failed", upstream="up"),
                "broken": UpstreamBroken("it failed", upstream="up"),
                "unsendable": RequestError("it failed"),
            }
            flight.finish(Crashed(errors[word]))
        case "readers":
            return len(flight._readers)

async def main():
    neighbours = Neighbours(Path(sys.argv[1]), flights.get)
    await neighbours.start()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(await obey(neighbours, *line.split()), flush=True)
    await neighbours.aclose()

asyncio.run(main())
"""


class Neighbour:
    """Another process that does as it is told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.number = process.pid

    async def do(self, verb: str, word: str = "-", *, name: str = "question") -> str:
        """Have one thing done; return what it said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{verb} {name} {word}\n".encode())
        return (await self._process.stdout.readline()).decode().strip()

    async def kill(self) -> None:
        """End it as the kernel would."""
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@contextlib.asynccontextmanager
async def _neighbour(directory: Path) -> AsyncIterator[Neighbour]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", NEIGHBOUR, str(directory)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield Neighbour(process)
    finally:
        process.stdin.close()
        await process.wait()


@pytest.fixture
async def neighbour(tmp_path: Path) -> AsyncIterator[Neighbour]:
    """Another process that shares the test's directory."""
    async with _neighbour(tmp_path) as running:
        yield running


@pytest.fixture
async def us(tmp_path: Path) -> AsyncIterator[Neighbours]:
    """This process, which has no flights of its own."""
    neighbours = Neighbours(tmp_path, lambda _: None)
    await neighbours.start()
    yield neighbours
    await neighbours.aclose()


async def follow(
    us: Neighbours, number: int, flight: Flight, *, patience_seconds: float = 10
) -> Followed:
    """Read a neighbour's flight."""
    leg = BorrowedLeg(flight, Endpoint.CHAT)
    leader = SocketLeader(us._socket_of(number), KEY)
    return await leader.follow(leg, patience_seconds=patience_seconds)


async def claim(us: Neighbours, key: CacheKey = KEY) -> Lead | int:
    """Return the lead, or the process that has it."""
    turn = await us.claim(key)
    if isinstance(turn, Lead):
        return turn
    assert isinstance(turn, SocketLeader)
    return int(Path(turn.socket).stem)


def make_flight(made: Made = MADE) -> Flight:
    """Return a flight to copy into."""
    return Flight(made, max_kept_bytes=1 << 30)


async def test_one_process_flies_at_a_time(us: Neighbours, neighbour: Neighbour) -> None:
    """The other is told who does; keys do not get in each other's way."""
    lead = await claim(us)
    assert isinstance(lead, Lead)
    assert await neighbour.do("claim") == str(os.getpid())
    assert await neighbour.do("claim", name="another") == "None"
    assert await claim(us, make_key("another")) == neighbour.number

    lead.release()
    assert await neighbour.do("claim") == "None"
    assert await claim(us) == neighbour.number
    await neighbour.do("release")
    assert isinstance(await claim(us), Lead)


async def test_a_dead_process_holds_nothing(us: Neighbours, neighbour: Neighbour) -> None:
    """However it died, and without anybody cleaning up."""
    await neighbour.do("claim")
    assert await claim(us) == neighbour.number
    await neighbour.kill()
    assert isinstance(await claim(us), Lead)


async def test_a_process_that_leaves_holds_nothing(us: Neighbours, neighbour: Neighbour) -> None:
    """Its locks go with it; leaving twice, and letting go after, do no harm."""
    lead = await claim(us)
    assert isinstance(lead, Lead)
    await us.aclose()
    await us.aclose()
    lead.release()
    assert await neighbour.do("claim") == "None"


async def test_a_flight_is_read_as_it_comes(us: Neighbours, neighbour: Neighbour) -> None:
    """Head and chunks are here before the end is, and the whole reply in the end."""
    await neighbour.do("fly")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    reader = flight.join()
    await neighbour.do("begin", "201")
    assert await reader.head() == Head(201, (("x-request-id", "req_1"),), Form.SSE)
    chunks = reader.chunks()
    for word in ("one", "two"):
        await neighbour.do("say", f"{word}\\n\\n")
        assert await anext(chunks) == f"{word}\n\n".encode()
    await neighbour.do("land")
    assert await following is Followed.TO_THE_END
    assert (flight.end, flight.body()) == (Landed(None), b"one\n\ntwo\n\n")


async def test_a_flight_can_be_read_after_its_beginning(
    us: Neighbours, neighbour: Neighbour
) -> None:
    """From its first byte on, however late."""
    await neighbour.do("fly")
    await neighbour.do("begin", "200")
    await neighbour.do("say", "early\\n\\n")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    assert await anext(flight.join().chunks()) == b"early\n\n"
    await neighbour.do("land")
    assert await following is Followed.TO_THE_END


async def test_a_flight_that_is_not_there(us: Neighbours, neighbour: Neighbour) -> None:
    """It has landed or not begun; or the process has no socket, or is not known."""
    assert await follow(us, neighbour.number, make_flight()) is Followed.NOT_THERE
    for nobody in (0, 2**22 + 1):
        followed = await follow(us, nobody, make_flight())
        assert followed is Followed.NOT_THERE


@pytest.mark.parametrize(
    "made",
    [
        Made(Position(9), SOURCES, Position(6)),
        Made(Position(5), (), Position(3)),
        Made(Position(5), (SourceValue("faq", "v2"),), Position(3)),
    ],
)
async def test_a_flight_of_the_past_is_not_read(
    us: Neighbours, neighbour: Neighbour, made: Made
) -> None:
    """Its call was made before an invalidation, or under another value of a source."""
    await neighbour.do("fly")
    await neighbour.do("begin", "200")
    flight = make_flight(made)
    assert await follow(us, neighbour.number, flight) is Followed.OUTDATED
    assert flight.head is None


@pytest.mark.parametrize("how", ["late", "broken"])
async def test_a_flight_that_fails_before_it_began(
    us: Neighbours, neighbour: Neighbour, how: str
) -> None:
    """Nothing was handed on, so it can be tried again."""
    await neighbour.do("fly")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    await neighbour.do("crash", how)
    assert await following is Followed.FAILED
    assert flight.end is None


async def test_a_flight_that_could_not_be_sent_is_no_flight(
    us: Neighbours, neighbour: Neighbour
) -> None:
    """What the other asked for cannot be sent; ours may be."""
    await neighbour.do("fly")
    following = asyncio.create_task(follow(us, neighbour.number, make_flight()))
    await neighbour.do("crash", "unsendable")
    assert await following is Followed.NOT_THERE


@pytest.mark.parametrize(("how", "kind"), [("late", UpstreamTimeout), ("broken", UpstreamBroken)])
async def test_a_flight_that_fails_later_fails_here_too(
    us: Neighbours, neighbour: Neighbour, how: str, kind: type[UpstreamError]
) -> None:
    """In the same way, naming the same model server."""
    await neighbour.do("fly")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    await neighbour.do("begin", "200")
    await neighbour.do("crash", how)
    assert await following is Followed.TO_THE_END
    assert isinstance(flight.end, Crashed)
    assert type(flight.end.error) is kind
    assert (flight.end.error.upstream, str(flight.end.error)) == ("up", "it failed")


async def readers(neighbour: Neighbour, count: int) -> None:
    """Return once so many read the neighbour's flight."""
    async with asyncio.timeout(10):
        while await neighbour.do("readers") != str(count):  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("status", "said", "comes"),
    [
        (None, None, Followed.LOST),
        ("200", None, Followed.LOST),
        ("200", "data:one\n\ndata:tw", Followed.LOST),
        ("200", "data: [DONE]\n\n", Followed.TO_THE_END),
        ("500", "data:one\n\n", Followed.TO_THE_END),
    ],
)
async def test_a_process_that_dies_loses_its_flight(
    us: Neighbours, neighbour: Neighbour, status: str | None, said: str | None, comes: Followed
) -> None:
    """A stream can be gone on with, of whose events only whole ones were handed on."""
    await neighbour.do("fly")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    reader = flight.join()
    if status:
        await neighbour.do("begin", status)
        await reader.head()
    if said:
        await neighbour.do("say", said.replace("\n", "\\n").replace(" ", "_"))
        await anext(reader.chunks())
    await readers(neighbour, 1)
    await neighbour.kill()
    assert await following is comes
    whole = (said or "")[: (said or "").rfind("\n") + 1]
    assert flight.body() == whole.encode()
    whole_end = Landed if said and "DONE" in said else Crashed
    assert (flight.end is None) is (comes is Followed.LOST)
    assert flight.end is None or isinstance(flight.end, whole_end)


async def test_what_is_no_stream_is_held_back_until_it_is_whole(
    us: Neighbours, neighbour: Neighbour
) -> None:
    """Half of it could not be gone on with."""
    await neighbour.do("fly")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight))
    await neighbour.do("begin_json", "200")
    await neighbour.do("say", "half")
    await readers(neighbour, 1)
    assert (flight.head, flight.body()) == (None, b"")
    await neighbour.do("land")
    assert await following is Followed.TO_THE_END
    assert (flight.head, flight.body()) == (Head(200, (), Form.JSON), b"half")


async def test_patience_is_for_the_beginning(us: Neighbours, neighbour: Neighbour) -> None:
    """A reply that does not begin in time is given up; one that has begun may take its time."""
    await neighbour.do("fly")
    assert (
        await follow(us, neighbour.number, make_flight(), patience_seconds=0.05)
        is Followed.NOT_THERE
    )
    await neighbour.do("begin", "200")
    flight = make_flight()
    following = asyncio.create_task(follow(us, neighbour.number, flight, patience_seconds=0.3))
    await flight.join().head()
    _, still_reading = await asyncio.wait((following,), timeout=0.4)
    assert still_reading
    await neighbour.do("land")
    assert await following is Followed.TO_THE_END


async def test_a_process_that_stops_reading_is_noticed(
    us: Neighbours, neighbour: Neighbour
) -> None:
    """Though nothing is sent: the last reader of a flight must be able to stop its call."""
    await neighbour.do("fly")
    following = asyncio.create_task(follow(us, neighbour.number, make_flight()))
    await readers(neighbour, 1)
    following.cancel()
    await readers(neighbour, 0)


@pytest.mark.parametrize(
    "junk",
    [b"", b"G", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xff", b"\xff\xff\xff\xff"],
)
async def test_junk_does_no_harm(us: Neighbours, neighbour: Neighbour, junk: bytes) -> None:
    """Whoever sends it is hung up on; the next one is served."""
    reader, writer = await asyncio.open_unix_connection(us._socket_of(neighbour.number))
    writer.write(junk)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    assert await follow(us, neighbour.number, make_flight()) is Followed.NOT_THERE


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x02H\xff",
        b"\x00\x00\x00\x01?",
        b"\xff\xff\xff\xffH",
    ],
)
async def test_a_reply_that_cannot_be_read_is_lost(us: Neighbours, sent: bytes) -> None:
    """A worker of another version, perhaps: there are other ways to an answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        writer.close()

    server = await asyncio.start_unix_server(answer, us._socket_of(1))
    async with server:
        assert await follow(us, 1, make_flight()) is Followed.LOST


async def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    """Socket paths have 108 bytes; directories may be deeper."""
    deep = tmp_path / ("d" * 100)
    async with _neighbour(deep) as neighbour:
        us = Neighbours(deep, lambda _: None)
        await us.start()
        await neighbour.do("fly")
        await neighbour.do("crash", "late")
        flight = make_flight()
        assert await follow(us, neighbour.number, flight) is Followed.FAILED
        await us.aclose()


async def test_a_socket_left_by_a_dead_process_is_replaced(tmp_path: Path) -> None:
    """Process numbers come again."""
    us = Neighbours(tmp_path, lambda _: None)
    left = tmp_path / f"{os.getpid()}.sock"
    left.touch()
    await us.start()
    assert left.is_socket()
    await us.aclose()
    assert not left.exists()


async def test_a_key_claimed_twice_is_let_go_at_the_second_release(tmp_path: Path) -> None:
    """A call that was launched anew is not left without its lock by the end of the older one."""
    key = make_key("twice")
    mine = Neighbours(tmp_path, lambda _: None)
    try:
        leads = [await claim(mine, key), await claim(mine, key)]
        for lead in leads:
            assert isinstance(lead, Lead)
            assert _claimed_by_another(tmp_path, key) == os.getpid()
            lead.release()
        assert _claimed_by_another(tmp_path, key) is None
    finally:
        await mine.aclose()


def _claimed_by_another(directory: Path, key: CacheKey) -> int | None:
    """Return whom `Neighbours.claim` names in another process."""
    code = (
        "import asyncio, sys; from pathlib import Path;"
        "from stepwell.pipeline.neighbours import Neighbours;"
        "us = Neighbours(Path(sys.argv[1]), lambda _: None);"
        "turn = asyncio.run(us.claim(bytes.fromhex(sys.argv[2])));"
        "print(Path(turn.socket).stem if hasattr(turn, 'socket') else None)"
    )
    command = [sys.executable, "-c", code, str(directory), key.hex()]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None if said == "None" else int(said)
