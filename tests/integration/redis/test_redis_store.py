"""The store on real servers: late writers, lost feeds, outages, and what must never come back."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from meta.repository import ROOT
from support.redis_client import OpenServers
from support.redis_cluster import redis_cluster
from support.redis_servers import PATIENCE_SECONDS, RedisServer
from support.redis_servers import Servers as Launcher

from stepwell.core.changes import Invalidated, Lost, Replaced, SourceMoved
from stepwell.core.clock import SystemClock
from stepwell.core.entry import UNKNOWN_VALUE, Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry, CutOff, StoreFull, StoreUnavailable
from stepwell.core.events import Event
from stepwell.core.judgement import Verdict
from stepwell.core.names import EVERYONE, Arrival, PairId, Position
from stepwell.stores.redis import removal, scanning
from stepwell.stores.redis.address import Credentials
from stepwell.stores.redis.facets import facets_of
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.slots import slot_of
from stepwell.stores.redis.store import RedisStore
from stepwell.testing.entries import make_entry, make_judgement, make_phrasing

PREFIX = "tests"
FEED = b"tests:{feed}:"


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


OpenStore = Callable[..., Awaitable[RedisStore]]


@pytest.fixture
async def open_store(open_at: OpenServers, server: RedisServer) -> AsyncIterator[OpenStore]:
    """Open handles on one server, as several gateways would."""
    opened: list[RedisStore] = []

    async def open_store(url: str = server.url, **settings: Any) -> RedisStore:
        lag = settings.pop("max_lag_seconds", PATIENCE_SECONDS)
        store = await RedisStore.open(
            await open_at(url, **settings),
            prefix=PREFIX,
            clock=SystemClock(),
            events=Heard(),
            max_lag_seconds=lag,
        )
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.aclose()


def fresh(name: str = "question", **fields: Any) -> Entry:
    return make_entry(name, created_at=time.time(), **fields)


async def read_until(store: RedisStore, count: int = 1) -> list[Any]:
    """Return the next changes, when so many are there."""
    changes: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(changes) < count:
            with suppress(CutOff):
                changes += await store.read()
            await asyncio.sleep(0.005)
    return changes


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_one_puts_another_gets(open_store: OpenStore, server: RedisServer) -> None:
    """To the last field; and Redis lets it go when nobody may be served it any more."""
    one, other = await open_store(), await open_store()
    entry = fresh(tags=("a", "标签"), phrasing=make_phrasing("words"), stale_seconds=9.0)
    assert await one.put(entry)
    assert await other.get(entry.key) == entry
    (name,) = server.ask("KEYS", "tests:e:*")
    assert 3_600_000 < server.ask("PTTL", name) <= 3_609_000
    assert await other.put(fresh("short", ttl_seconds=0.05))
    await asyncio.sleep(0.1)
    assert await one.get(fresh("short").key) is None


async def test_a_damaged_record(open_store: OpenStore, server: RedisServer) -> None:
    """It is told, and replaced by the next; what is of another version is left alone."""
    store = await open_store()
    entry = fresh()
    await store.put(entry)
    (name,) = server.ask("KEYS", "tests:e:*")
    value = server.ask("GET", name)
    server.ask("SET", name, value[:-1] + bytes([value[-1] ^ 1]))
    with pytest.raises(CorruptEntry):
        await store.get(entry.key)
    await store.put(entry)
    assert await store.get(entry.key) == entry
    server.ask("SET", name, value[:3] + b"\xff" + value[4:])
    assert await store.get(entry.key) is None
    assert await store.count(Selector()) == 0
    assert server.ask("EXISTS", name) == 1


async def test_an_answer_on_its_way_is_not_stored(open_store: OpenStore) -> None:
    """Whoever knows of the invalidation refuses it, by any of the things it may be meant by."""
    one, other = await open_store(), await open_store()
    entry = fresh(tags=("a", "b"))
    for selector in (
        Selector(),
        Selector(key=entry.key),
        Selector(tag="b"),
        Selector(namespace=entry.namespace, model="model"),
        Selector(request_class="general", tag="a"),
    ):
        entry = replace(entry, as_of=other.position())
        await one.invalidate(selector)
        await read_until(other)
        assert not await other.put(entry), selector
        assert await other.put(replace(entry, as_of=other.position()))
        assert await one.invalidate(selector) == 1
        await read_until(other)


async def test_one_who_slept_cannot_write(open_store: OpenStore) -> None:
    """What it knows of invalidations is too old, by the server's clock."""
    store = await open_store()
    store._feed._server_seconds -= 60
    await store._feed.aclose()
    with pytest.raises(StoreUnavailable, match="too late"):
        await store.put(fresh())
    assert await store.count(Selector()) == 0


async def test_what_a_late_writer_wrote_is_never_served(
    open_store: OpenStore, server: RedisServer
) -> None:
    """Nor by a gateway that starts afterwards; and the next sweep removes it."""
    one = await open_store()
    entry = fresh(tags=("a",))
    await one.put(entry)
    late = replace(entry, as_of=one.position())
    for selector in (Selector(tag="a"), Selector(key=entry.key)):
        late = replace(entry, as_of=one.position())
        await one.invalidate(selector)
        generation, heard_at = one._feed.generation, one._feed.heard_at
        await one._entries.put(generation, late, facets_of(late), heard_at, b"")
        assert server.ask("KEYS", "tests:e:*")
        for store in (one, await open_store()):
            assert await store.get(entry.key) is None
            assert await store.count(Selector()) == 0
        await one.read()
        await one._removal._sweep(one.position())
        assert server.ask("KEYS", "tests:e:*") == []
        await until(lambda: not len(one._feed.epochs))
        assert server.ask("ZCARD", FEED + b"epochs") == 0
        assert await one.put(replace(entry, as_of=one.position()))


async def test_only_one_gateway_sweeps(open_store: OpenStore, server: RedisServer) -> None:
    """A lease that somebody holds is respected, and its holder's alone to give back."""
    one = await open_store()
    await one.invalidate(Selector(tag="a"))
    await one.read()
    server.ask("SET", FEED + b"sweep", "another", "PX", 60_000)
    await one._removal._sweep(one.position())
    assert len(one._feed.epochs) == 1
    assert server.ask("GET", FEED + b"sweep") == b"another"


async def test_sweeping_by_itself(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invalidations are forgotten by all after two pauses, and no position is skipped."""
    monkeypatch.setattr(removal, "SETTLED_SECONDS", 0.1)
    one, other = await open_store(), await open_store()
    await one.invalidate(Selector(tag="a"))
    await read_until(other)
    await until(lambda: not len(one._feed.epochs) and not len(other._feed.epochs))
    assert not other.behind()
    await one.invalidate(Selector(tag="b"))
    (change,) = await read_until(other)
    assert isinstance(change, Invalidated)
    assert change.selector == Selector(tag="b")


async def test_a_sweep_forgets_nothing_that_others_need(
    open_store: OpenStore, server: RedisServer
) -> None:
    """As long as there are entries it cannot read, which others may still have to refuse."""
    store = await open_store()
    entry = fresh()
    for selector in (Selector(key=entry.key), Selector(tag="a")):
        await store.put(replace(entry, as_of=store.position()))
        (name,) = server.ask("KEYS", "tests:e:*")
        server.ask("SETRANGE", name, 3, b"\xff")  # written by a newer version
        assert await store.invalidate(selector) == 0
        await store.read()
        await store._removal._sweep(store.position())
        assert server.ask("ZCARD", FEED + b"epochs") == 1
        server.ask("DEL", name)
        await store._removal._sweep(store.position())
        assert server.ask("ZCARD", FEED + b"epochs") == 0
        await until(lambda: not len(store._feed.epochs))


async def test_what_was_said_and_cannot_be_read(open_store: OpenStore, server: RedisServer) -> None:
    """No answer is made under such a source's value; such a pair shares no answer."""
    store, pair, tenant = await open_store(), PairId(bytes(range(16))), fresh().namespace
    await store.move_source(tenant, "faq", "1")
    await store.judge(make_judgement(pair, fresh().key, verdict=Verdict.RIGHT))
    server.ask("HSET", FEED + b"sources", tenant + b"faq", b"of a newer version")
    assert await store.source_values() == {(tenant, "faq"): UNKNOWN_VALUE}
    for row in (b"2:of a newer version", b"of a newer version"):
        server.ask("HSET", FEED + b"judgements", pair, row)
        (judged,) = await store.judgements()
        assert (judged.pair, judged.verdict) == (pair, Verdict.WRONG)


async def test_an_older_version_writes_over_nothing(
    open_store: OpenStore, server: RedisServer
) -> None:
    """What a newer one wrote stays; what is older, or damaged at its head, is written over."""
    store, entry = await open_store(), fresh()
    for offset, head, stays in (
        (3, b"\x02", True),  # facets
        (4, b"\xff", True),  # the record
        (5, b"\x01", True),  # its higher byte: it has two
        (3, b"\x00", False),
        (4, b"\x01", False),
        (0, b"?", False),
    ):
        await store.put(entry)
        (name,) = server.ask("KEYS", "tests:e:*")
        server.ask("SETRANGE", name, offset, head)
        written = server.ask("GET", name)
        assert await store.put(entry)
        assert (server.ask("GET", name) == written) is stays
        server.ask("DEL", name)


async def test_emptied(open_store: OpenStore, server: RedisServer) -> None:
    """Whoever follows is told that all is lost; positions go on above all that were seen."""
    one, other = await open_store(), await open_store()
    await one.move_source(EVERYONE, "faq", "1")
    await read_until(other)
    before, generation = other.position(), other._feed.generation
    server.ask("FLUSHALL")
    changes = await read_until(other)
    assert isinstance(changes[0], Lost)
    assert changes[0].position > before
    await read_until(one)
    assert one._feed.generation == other._feed.generation != generation
    assert await one.source_values() == {}
    entry = fresh(as_of=one.position())
    assert await one.put(entry)
    assert await other.get(entry.key) == entry


async def test_an_evicted_feed_takes_the_entries_with_it(
    open_store: OpenStore, server: RedisServer
) -> None:
    """Entries whose invalidations nobody knows any more are not found again."""
    store = await open_store()
    entry = fresh()
    await store.put(entry)
    server.ask("DEL", FEED + b"meta", FEED + b"changes", FEED + b"epochs")
    await read_until(store)
    assert await store.get(entry.key) is None
    assert server.ask("KEYS", "tests:e:*")


@pytest.mark.parametrize("how", ["gap", "another history", "unreadable"])
async def test_a_torn_feed(open_store: OpenStore, server: RedisServer, how: str) -> None:
    """Changes that are missing, or may be: everything derived is to be built anew."""
    one, other = await open_store(), await open_store()
    await one.invalidate(Selector(tag="a"))
    await read_until(other)
    match how:
        case "gap":
            server.ask("HSET", FEED + b"meta", "position", 7)
            server.ask("XADD", FEED + b"changes", "7-0", "change", b"?")
        case "another history":
            server.ask("DEBUG", "CHANGE-REPL-ID")
            server.ask("CLIENT", "KILL", "TYPE", "normal")
        case _:
            server.ask("HSET", FEED + b"meta", "position", 2)
            server.ask("XADD", FEED + b"changes", "2-0", "change", b"of a newer version")
    (lost,) = await read_until(other)
    assert isinstance(lost, Lost)
    assert len(other._feed.epochs) == 1
    await one.read()
    await one.invalidate(Selector(tag="b"))
    assert [type(change) for change in await read_until(other)] == [Invalidated]


async def test_an_invalidation_that_cannot_be_read(
    open_store: OpenStore, server: RedisServer
) -> None:
    """Whoever comes then takes it to mean all that is older."""
    one = await open_store()
    old = fresh("old", as_of=one.position())
    await one.put(old)
    await one.move_source(EVERYONE, "faq", "1")
    server.ask("ZADD", FEED + b"epochs", 1, b"of a newer version")
    other = await open_store()
    assert await other.get(old.key) is None
    young = fresh("young", as_of=other.position())
    assert await other.put(young)
    assert await other.get(young.key) == young


async def test_an_outage(open_store: OpenStore, server: RedisServer) -> None:
    """Nothing of what is held counts meanwhile; nothing is lost by it."""
    one, other = await open_store(), await open_store(max_lag_seconds=0.5)
    assert not other.behind()
    server.pause()
    await until(other.behind)
    with pytest.raises(CutOff):
        await other.read()
    with pytest.raises(CutOff):
        await other.put(fresh())
    assert other.trouble
    server.resume()
    await until(lambda: not other.behind())
    assert list(await other.read()) == []
    assert not other.trouble
    await one.move_source(EVERYONE, "faq", "2")
    (change,) = await read_until(other)
    assert change == SourceMoved(Position(1), EVERYONE, "faq", "2")


async def test_a_server_that_comes_later(open_store: OpenStore, server: RedisServer) -> None:
    """The store opens without it, fails at once, and works when it is there."""
    server.kill()
    store = await open_store(timeout_seconds=0.05, connect_timeout_seconds=0.5)
    with pytest.raises(CutOff):
        await store.get(fresh().key)
    server.start()
    await read_until(store)  # Lost: somebody may have derived something.
    entry = fresh(as_of=store.position())
    assert await store.put(entry)
    assert await store.get(entry.key) == entry


async def test_replaced(open_store: OpenStore) -> None:
    """Copies of the older one are to go, everywhere."""
    one, other = await open_store(), await open_store()
    entry = fresh()
    await one.put(entry)
    await other.put(replace(entry, answer=fresh(body=b"{}").answer))
    assert await read_until(one) == [Replaced(Position(1), entry.key)]


async def test_what_was_said(open_store: OpenStore, server: RedisServer) -> None:
    """Judgements come in order, the latest of a pair; sources are everybody's or one's own."""
    one = await open_store()
    pairs = [PairId(bytes([number]) * 16) for number in range(3)]
    key = fresh().key
    for number in (0, 1, 2, 0):
        verdict = Verdict.RIGHT if number else Verdict.WRONG
        await one.judge(make_judgement(pairs[number], key, verdict=verdict))
    other = await open_store()
    assert [judged.pair for judged in await other.judgements()] == [pairs[1], pairs[2], pairs[0]]
    tenant = fresh().namespace
    assert await one.move_source(EVERYONE, "faq", "1")
    assert await one.move_source(tenant, "faq", "own")
    assert not await one.move_source(tenant, "faq", "own")
    assert await other.source_values() == {(EVERYONE, "faq"): "1", (tenant, "faq"): "own"}
    assert await one.move_source(EVERYONE, "faq", "1")
    assert await other.source_values() == {(EVERYONE, "faq"): "1"}


async def test_arrivals(open_store: OpenStore, server: RedisServer) -> None:
    """In order for who keeps up; by a walk through all for who does not."""
    store = await open_store()

    async def put(*names: str) -> list[Arrived]:
        came = [fresh(name, phrasing=make_phrasing(name)) for name in names]
        for entry in came:
            await store.put(entry)
        return [Arrived(entry.key, entry.expires_at) for entry in came]

    assert await store.arrived(Arrival(0), 10) == ([], Arrival(1))
    await store.put(fresh("without words"))
    first = await put("a", "b", "c")
    assert await store.arrived(Arrival(1), 2) == (first[:2], Arrival(3))
    assert await store.arrived(Arrival(3), 2) == (first[2:], Arrival(4))
    assert await store.arrived(Arrival(4), 2) == ([], Arrival(4))

    found: list[Arrived] = []
    after = Arrival(0)
    while after <= 0:
        page, after = await store.arrived(after, 2)
        found += page
        assert len(page) == 2 or after > 0
    assert sorted(found, key=repr) == sorted(first, key=repr)
    assert after == Arrival(4)

    server.ask("XTRIM", FEED + b"arrivals", "MAXLEN", 0)
    await put("d")
    server.ask("XTRIM", FEED + b"arrivals", "MAXLEN", 0)
    page, after = await store.arrived(Arrival(4), 10)
    assert len(page) == 4
    assert after == Arrival(5)


async def test_a_full_server(open_store: OpenStore, server: RedisServer) -> None:
    """It says so; all but storing answers goes on, and so does who comes then."""
    store = await open_store()
    entry, gone = fresh(), fresh("gone", tags=("a",))
    await store.put(entry)
    await store.put(gone)
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(StoreFull, match="memory"):
        await store.put(fresh("other"))
    assert await store.get(entry.key) == entry
    assert await store.invalidate(Selector(tag="a")) == 1
    assert await store.move_source(EVERYONE, "faq", "1")
    await store.judge(make_judgement(PairId(bytes(16)), entry.key))
    await store.read()
    await store._removal._sweep(store.position())
    await until(lambda: not len(store._feed.epochs))
    late = await open_store()
    assert await late.get(entry.key) == entry
    assert await late.get(gone.key) is None


async def test_replicas_must_know(open_store: OpenStore, launcher: Launcher) -> None:
    """What could be forgotten by a fail-over is not called done."""
    master = launcher.start("repl-diskless-sync-delay 0")
    replica = launcher.start(f"replicaof 127.0.0.1 {master.port}")
    await until(lambda: replica.info("replication").get("master_link_status") == "up")
    store = await open_store(master.url)
    await until(lambda: master.info("replication")["connected_slaves"] == "1")
    assert await store.invalidate(Selector()) == 0
    replica.pause()
    with pytest.raises(StoreUnavailable, match="no replica"):
        await store.invalidate(Selector(tag="a"))
    replica.resume()
    assert len(await read_until(store, 2)) == 2


async def test_a_user_with_the_documented_rights(
    open_store: OpenStore, server: RedisServer
) -> None:
    """It can do all that is done."""
    page = (ROOT / "docs" / "how-to" / "redis.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("ACL SETUSER")]
    server.ask(*line.replace("~stepwell:*", f"~{PREFIX}:*").split())
    store = await open_store(server.url, credentials=Credentials("stepwell", "password"))
    entry = fresh(tags=("a",), phrasing=make_phrasing("words"))
    assert await store.put(entry)
    assert await store.put(replace(entry, answer=fresh(body=b"{}").answer))
    assert await store.get(entry.key) is not None
    assert len((await store.arrived(Arrival(0), 10))[0]) == 1
    await store.arrived(Arrival(1), 10)
    await store.move_source(EVERYONE, "faq", "1")
    await store.source_values()
    await store.judge(make_judgement(PairId(bytes(16)), entry.key))
    await store.judgements()
    assert await store.invalidate(Selector(tag="a")) == 1
    await store.read()
    await store._removal._sweep(store.position())
    await until(lambda: not len(store._feed.epochs))
    refused = {str(reply) for reply in server.ask("ACL", "LOG")}
    assert refused == set()


async def test_walks_in_pages(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting and removing come by every entry once, however many."""
    monkeypatch.setattr(scanning, "_COUNT", 7)
    store = await open_store()
    tags = ("even", "odd")
    for number in range(100):
        await store.put(fresh(str(number), tags=(tags[number % 2],)))
    assert await store.count(Selector(tag="odd")) == 50
    assert await store.invalidate(Selector(tag="odd")) == 50
    assert await store.count(Selector()) == 50
    assert Layout(PREFIX).meta == FEED + b"meta"


async def kinds_found(store: RedisStore, wanted: list[Entry]) -> set[type]:
    """Return of which kinds the store's answers are."""
    got = await asyncio.gather(*(store.get(one.key) for one in wanted), return_exceptions=True)
    return {StoreUnavailable if isinstance(it, StoreUnavailable) else type(it) for it in got}


@pytest.mark.slow
async def test_a_lost_node_keeps_no_invalidation_back(open_store: OpenStore) -> None:
    """What it holds cannot be counted, which is told; all the same, everybody obeys."""
    with redis_cluster() as cluster:
        one, other = await open_store(cluster.url), await open_store(cluster.url)
        feed = cluster.owner(slot_of(Layout(PREFIX).meta))
        kept = [fresh(str(number), tags=("a",)) for number in range(30)]
        for entry in kept:
            await one.put(entry)
        lost = next(server for server in cluster.masters() if server is not feed)
        for server in cluster.servers:
            if server.info("replication").get("master_port") == str(lost.port):
                await asyncio.to_thread(server.kill)
        await asyncio.to_thread(lost.kill)
        found = await asyncio.gather(
            *(other.get(entry.key) for entry in kept), return_exceptions=True
        )
        assert set(map(type, found)) == {Entry, StoreUnavailable}
        with pytest.raises(StoreUnavailable):
            await one.invalidate(Selector(tag="a"))
        await read_until(other)
        found = await asyncio.gather(
            *(other.get(entry.key) for entry in kept), return_exceptions=True
        )
        assert set(map(type, found)) == {type(None), StoreUnavailable}
        for store in (one, other):
            await store.aclose()
