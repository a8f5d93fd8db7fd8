"""A fleet whose store and post do as the test says: what is lost, silent, torn, or hostile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from stepwell.core.clock import SystemClock
from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError, StoreUnavailable, UpstreamBroken
from stepwell.core.names import CacheKey, Endpoint, Form, Position
from stepwell.core.ports import Claimed
from stepwell.pipeline.circle import Followed, Lead
from stepwell.pipeline.fill import Made
from stepwell.pipeline.fleet import Fleet
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.pipeline.leg import BorrowedLeg
from stepwell.testing.entries import make_key

KEY = make_key("question")
MADE = Made(Position(5), (SourceValue("faq", "v1"),), Position(3))
STREAM = Head(200, (), Form.SSE)
LEASE_SECONDS = 0.2
LONG = 20.0


@dataclass
class Store:
    """What all share: leases that never run out, and letters that come at once."""

    holders: dict[CacheKey, str] = field(default_factory=dict)
    readers: dict[str, Callable[[bytes], None]] = field(default_factory=dict)
    is_down: bool = False
    passes: Callable[[bytes], bool] = lambda _: True
    """Whether a letter comes."""
    sent: int = 0

    def check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("down")


@dataclass
class Place:
    """The leases and the post of one process."""

    store: Store
    address: str

    async def claim(self, key: CacheKey, milliseconds: int) -> Claimed | str:
        self.store.check()
        holder = self.store.holders.setdefault(key, self.address)
        return Claimed(is_made=False) if holder == self.address else holder

    async def holder(self, key: CacheKey) -> str | None:
        self.store.check()
        return self.store.holders.get(key)

    async def renew(self, milliseconds: int) -> None:
        self.store.check()

    async def release(self, key: CacheKey) -> None:
        self.store.check()
        self.store.holders.pop(key, None)

    def start(self, take: Callable[[bytes], None]) -> None:
        self.store.readers[self.address] = take

    async def send(self, to: str, letter: bytes, *, patience_seconds: float | None = None) -> None:
        self.store.check()
        self.store.sent += 1
        if self.store.passes(letter) and to in self.store.readers:
            asyncio.get_running_loop().call_soon(self.store.readers[to], letter)


class Ship:
    """One process."""

    def __init__(self, store: Store, address: str) -> None:
        self.flights: dict[CacheKey, Flight] = {}
        place = Place(store, address)
        self.fleet = Fleet(
            place, place, self.flights.get, clock=SystemClock(), lease_seconds=LEASE_SECONDS
        )
        self.fleet.start()

    def fly(self, made: Made = MADE) -> Flight:
        """Begin a flight; nobody of its own reads it."""
        flight = self.flights[KEY] = Flight(made, max_kept_bytes=1 << 30)
        return flight


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def ships(store: Store) -> AsyncIterator[tuple[Ship, Ship]]:
    """The first leads."""
    ships = Ship(store, "one"), Ship(store, "two")
    assert isinstance(await ships[0].fleet.claim(KEY), Lead)
    yield ships
    store.is_down = False
    for ship in ships:
        await ship.fleet.aclose()


@dataclass
class Following:
    """What the second reads of the first."""

    flight: Flight
    task: asyncio.Task[Followed]

    async def ended(self) -> Followed:
        async with asyncio.timeout(LONG):
            return await self.task


async def follow(ship: Ship, made: Made = MADE, *, patience_seconds: float = LONG) -> Following:
    leader = await ship.fleet.claim(KEY)
    assert not isinstance(leader, Lead)
    flight = Flight(made, max_kept_bytes=1 << 30)
    leg = BorrowedLeg(flight, Endpoint.CHAT)
    task = asyncio.create_task(leader.follow(leg, patience_seconds=patience_seconds))
    return Following(flight, task)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LONG):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_flight_is_read_as_it_comes(ships: tuple[Ship, Ship]) -> None:
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    await until(lambda: following.flight.head == STREAM)
    await flight.extend(b"data: a\n\n" + b"b" * 200_000)
    await until(lambda: following.flight.body() == b"data: a\n\n")
    await flight.extend(b"\n\n")
    flight.finish(Landed(None))
    assert await following.ended() is Followed.TO_THE_END
    assert following.flight.body() == flight.body()
    assert following.flight.end == Landed(None)


async def test_a_leader_that_says_nothing_for_long_is_waited_for(ships: tuple[Ship, Ship]) -> None:
    """It says that it is there."""
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    await asyncio.sleep(4 * LEASE_SECONDS)
    assert not following.task.done()
    flight.begin(STREAM)
    await asyncio.sleep(4 * LEASE_SECONDS)
    assert not following.task.done()
    flight.finish(Landed(None))
    assert await following.ended() is Followed.TO_THE_END


async def test_patience_is_for_the_beginning(ships: tuple[Ship, Ship]) -> None:
    one, two = ships
    one.fly()
    following = await follow(two, patience_seconds=2 * LEASE_SECONDS)
    assert await following.ended() is Followed.NOT_THERE


@pytest.mark.parametrize(
    "wanted", [Made(Position(9), (), Position(6)), Made(Position(5), (), Position(3))]
)
async def test_a_flight_of_the_past_is_not_read(ships: tuple[Ship, Ship], wanted: Made) -> None:
    one, two = ships
    one.fly()
    assert await (await follow(two, wanted)).ended() is Followed.OUTDATED


async def test_a_flight_whose_beginning_is_gone_is_not_read(ships: tuple[Ship, Ship]) -> None:
    """It is too large to be kept: who wants it makes a call of its own, at once."""
    one, two = ships
    one.fly().kept_whole = False
    assert await (await follow(two)).ended() is Followed.OUTDATED


async def test_a_flight_that_is_not_there(ships: tuple[Ship, Ship]) -> None:
    """It has landed, or everybody has left it."""
    one, two = ships
    assert await (await follow(two)).ended() is Followed.NOT_THERE
    one.fly().stopped = True
    assert await (await follow(two)).ended() is Followed.NOT_THERE


@pytest.mark.parametrize(
    ("error", "comes"),
    [
        (UpstreamBroken("broke", upstream="up"), Followed.FAILED),
        (RequestError("cannot be sent"), Followed.NOT_THERE),
    ],
)
async def test_a_call_that_fails_before_it_began(
    ships: tuple[Ship, Ship], error: UpstreamBroken | RequestError, comes: Followed
) -> None:
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.finish(Crashed(error))
    assert await following.ended() is comes
    assert following.flight.end is None


async def test_a_call_that_fails_later_fails_here_too(ships: tuple[Ship, Ship]) -> None:
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    await flight.extend(b"data: a\n\n")
    await until(following.flight.body)
    flight.finish(Crashed(UpstreamBroken("broke", upstream="up")))
    assert await following.ended() is Followed.TO_THE_END
    assert isinstance(following.flight.end, Crashed)


async def test_a_leader_whose_lease_has_run_out_is_lost(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """Once it is silent. What it said can be gone on with: whole events."""
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    await flight.extend(b"data: a\n\ndata: half")
    await until(following.flight.body)
    del store.holders[KEY]
    await asyncio.sleep(2 * LEASE_SECONDS)
    assert not following.task.done()  # It is heard, so it is there.
    store.passes = lambda _: False
    assert await following.ended() is Followed.LOST
    assert following.flight.body() == b"data: a\n\n"
    assert following.flight.end is None
    assert isinstance(await two.fleet.claim(KEY), Lead)


async def test_a_leader_that_has_its_lease_and_is_silent_is_lost_too(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """Its letters do not come any more: after two leases nobody waits."""
    one, two = ships
    one.fly().begin(STREAM)
    following = await follow(two)
    await until(lambda: following.flight.head)
    store.passes = lambda _: False
    started = asyncio.get_running_loop().time()
    assert await following.ended() is Followed.LOST
    assert asyncio.get_running_loop().time() - started > LEASE_SECONDS


async def test_a_leader_that_never_says_a_word_cannot_be_asked(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """It holds the lease, but whoever waited for it would wait for ever."""
    _, two = ships
    del store.readers["one"]
    assert await (await follow(two)).ended() is Followed.UNREACHED


async def test_a_store_that_fails_leaves_each_to_itself(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """Who follows gives up after a lease; who claims has the lead."""
    one, two = ships
    one.fly().begin(STREAM)
    following = await follow(two)
    await until(lambda: following.flight.head)
    store.is_down = True
    assert await following.ended() is Followed.LOST
    lead = await two.fleet.claim(KEY)
    assert isinstance(lead, Lead)
    lead.release()


async def test_a_letter_that_cannot_be_sent_is_no_call(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """Who cannot ask for it does not wait for it."""
    one, two = ships
    one.fly()
    following = await follow(two)
    store.is_down = True
    assert await following.ended() is Followed.UNREACHED


async def test_a_letter_that_is_lost_is_noticed(ships: tuple[Ship, Ship], store: Store) -> None:
    """A gap would be an answer with a hole in it."""
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    await until(lambda: following.flight.head)
    store.passes = lambda letter: b"lost" not in letter
    await flight.extend(b"data: lost\n\n")
    await asyncio.sleep(0.02)
    await flight.extend(b"data: came\n\n")
    assert await following.ended() is Followed.LOST
    assert following.flight.body() == b""


async def test_a_leader_that_lost_the_thread_says_so(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    """It is alive, and has its lease: nobody waits until that is over."""
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    await until(lambda: len(flight._readers) == 1)
    for telling in one.fleet._telling.values():
        telling.task.cancel()
    started = asyncio.get_running_loop().time()
    assert await following.ended() is Followed.LOST
    assert asyncio.get_running_loop().time() - started < LEASE_SECONDS


async def test_a_reader_that_leaves_is_noticed(ships: tuple[Ship, Ship]) -> None:
    """The last reader of a flight must be able to stop its call."""
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    await until(lambda: len(flight._readers) == 1)
    following.task.cancel()
    await until(lambda: not flight._readers)


async def test_a_reader_that_is_gone_is_noticed(ships: tuple[Ship, Ship], store: Store) -> None:
    """It says nothing any more."""
    one, two = ships
    flight = one.fly()
    await follow(two)
    await until(lambda: len(flight._readers) == 1)
    await asyncio.sleep(3 * LEASE_SECONDS)
    assert len(flight._readers) == 1
    store.passes = lambda letter: b"reading" not in letter
    await until(lambda: not flight._readers)


async def test_a_lead_is_given_up(ships: tuple[Ship, Ship], store: Store) -> None:
    one, _ = ships
    lead = await one.fleet.claim(KEY)
    assert isinstance(lead, Lead)
    lead.release()
    await until(lambda: not store.holders)


@pytest.mark.parametrize(
    "letter",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode(["want"]),
        msgspec.msgpack.encode(["want", b"talk", "two", [b"key", 1, "sources"]]),
        msgspec.msgpack.encode(["part", b"talk", 0, "?", b""]),
        msgspec.msgpack.encode(["part", b"nobody's", 0, "H", b""]),
        msgspec.msgpack.encode(["left", b"nobody's"]),
        msgspec.msgpack.encode(["reading", b"nobody's", "elsewhere"]),
        msgspec.msgpack.encode(["over", b"nobody's"]),
        msgspec.msgpack.encode(["alive", b"nobody's"]),
        msgspec.msgpack.encode(["later version", b"talk"]),
    ],
)
async def test_a_letter_that_makes_no_sense_is_dropped(
    ships: tuple[Ship, Ship], store: Store, letter: bytes
) -> None:
    one, two = ships
    store.readers["one"](letter)
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    flight.finish(Landed(None))
    assert await following.ended() is Followed.TO_THE_END


async def test_a_head_that_makes_no_sense_is_a_leader_lost(
    ships: tuple[Ship, Ship], store: Store
) -> None:
    _, two = ships
    wanted: list[bytes] = []
    store.readers["one"] = wanted.append
    following = await follow(two)
    await until(lambda: wanted)
    _, talk, *_ = msgspec.msgpack.decode(wanted[0])
    store.readers["two"](msgspec.msgpack.encode(["part", talk, 0, "H", b"\xff"]))
    assert await following.ended() is Followed.LOST


async def test_readers_are_bounded(
    ships: tuple[Ship, Ship], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than that makes its own call."""
    monkeypatch.setattr("stepwell.pipeline.fleet._MAX_TOLD", 1)
    one, two = ships
    flight = one.fly()
    first, second = await follow(two), await follow(two)
    assert await second.ended() is Followed.OUTDATED
    flight.begin(STREAM)
    flight.finish(Landed(None))
    assert await first.ended() is Followed.TO_THE_END


async def test_who_reads_too_slowly_loses_the_thread(
    ships: tuple[Ship, Ship], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it is bounded; a hole is never passed over."""
    monkeypatch.setattr("stepwell.pipeline.fleet._MAX_UNREAD", 1)
    one, two = ships
    flight = one.fly()
    following = await follow(two)
    flight.begin(STREAM)
    await flight.extend(b"data: a\n\n" * 30_000)
    flight.finish(Landed(None))
    with contextlib.suppress(TimeoutError):
        await following.ended()
    assert following.task.done()
    assert (following.task.result() is Followed.TO_THE_END) == (
        following.flight.body() == flight.body()
    )
