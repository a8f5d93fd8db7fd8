"""Memory over a store: what was invalidated anywhere is never found here again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from support.walk import Heard, settle

from stepwell.core.changes import Change, Invalidated, Lost, Replaced, SourceMoved
from stepwell.core.entry import Answer, Entry, Selector, SourceValue
from stepwell.core.errors import CorruptEntry, CutOff, StoreError, StoreFull, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.names import EVERYONE, CacheKey, Form, Namespace, Position, Tier
from stepwell.exact.layer import RECENT_INVALIDATIONS, ExactLayer
from stepwell.exact.uses import MAX_UNTOLD_KEYS
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_namespace

TENANT = make_namespace("tenant")
DOWN = StoreUnavailable("the disk is gone")


@dataclass
class HandStore:
    """A store and its feed that answer when, and as, the test says."""

    entries: dict[CacheKey, Entry] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """All of them, so that a change's position is its place, from 1."""
    sources: dict[tuple[Namespace, str], str] = field(default_factory=dict)
    touched: list[dict[CacheKey, int]] = field(default_factory=list)
    gets: int = 0
    read_to: int = 0
    fails: dict[str, StoreError] = field(default_factory=dict)
    """What a method raises, by its name."""
    during: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    """What happens while a method is waited for, once it has seen what it will say."""

    @property
    def tier(self) -> Tier:
        return Tier.DISK

    def change(self, make: Callable[[Position], Change]) -> None:
        """Append a change, as another worker would."""
        self.changes.append(make(Position(len(self.changes) + 1)))

    def invalidate_all(self) -> None:
        """Invalidate everything, as another worker would."""
        self.entries.clear()
        self.change(lambda position: Invalidated(position, Selector()))

    def move(self, name: str, value: str, namespace: Namespace = TENANT) -> None:
        """Move a source, as another worker would."""
        self.sources[namespace, name] = value
        self.change(lambda position: SourceMoved(position, namespace, name, value))

    async def _meanwhile(self, method: str) -> None:
        happens = self.during.pop(method, None)
        if happens is not None:
            await happens()
        if method in self.fails:
            raise self.fails[method]

    async def get(self, key: CacheKey) -> Entry | None:
        self.gets += 1
        found = self.entries.get(key)
        await self._meanwhile("get")
        return found

    async def put(self, entry: Entry) -> bool:
        await self._meanwhile("put")
        if any(
            isinstance(change, Invalidated)
            and change.position > entry.as_of
            and change.selector.matches(entry)
            for change in self.changes
        ):
            return False
        self.entries[entry.key] = entry
        return True

    async def count(self, selector: Selector) -> int:
        await self._meanwhile("count")
        return sum(map(selector.matches, self.entries.values()))

    async def invalidate(self, selector: Selector) -> int:
        await self._meanwhile("invalidate")
        gone = [key for key, entry in self.entries.items() if selector.matches(entry)]
        for key in gone:
            del self.entries[key]
        self.change(lambda position: Invalidated(position, selector))
        return len(gone)

    async def revoke(self, selector: Selector) -> None:
        await self.invalidate(selector)

    async def aclose(self) -> None: ...

    def touch(self, uses: Mapping[CacheKey, int]) -> None:
        self.touched.append(dict(uses))

    def behind(self) -> bool:
        return self.read_to < len(self.changes)

    def position(self) -> Position:
        return Position(self.read_to)

    async def read(self) -> Sequence[Change]:
        await self._meanwhile("read")
        changes, self.read_to = self.changes[self.read_to :], len(self.changes)
        return changes

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        await self._meanwhile("move_source")
        if self.sources.get((namespace, name)) == value:
            return False
        self.move(name, value, namespace)
        return True

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        values = dict(self.sources)
        await self._meanwhile("source_values")
        return values


@dataclass
class Room:
    """A layer and what is behind it."""

    store: HandStore
    layer: ExactLayer
    events: Heard

    @property
    def degraded(self) -> list[object]:
        """What went wrong, unseen by any caller."""
        return list(self.events.of(Degraded))


def make_room(store: HandStore | None = None) -> Room:
    """Return a layer over an empty store."""
    store, events = store or HandStore(), Heard()
    memory = MemoryStore(
        Lru(), max_entries=10_000, max_bytes=1 << 24, clock=HandClock(), events=Heard()
    )
    return Room(store, ExactLayer(memory, store, store, events=events), events)


@pytest.fixture
def room() -> Room:
    """A layer over an empty store."""
    return make_room()


ENTRY = make_entry()
KEY = ENTRY.key


async def test_an_entry_of_the_store_comes_into_memory(room: Room) -> None:
    """The second time it costs no read, and the short way has it too."""
    room.store.entries[KEY] = ENTRY
    assert room.layer.peek(KEY) is None
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.DISK)
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.MEMORY)
    assert room.layer.peek(KEY) is ENTRY
    assert room.store.gets == 1


async def test_a_new_entry_is_kept_and_shared(room: Room) -> None:
    """In memory at once, in the store when that has been awaited."""
    assert room.layer.keep(ENTRY)
    assert room.layer.peek(KEY) is ENTRY
    assert room.store.entries == {}
    await room.layer.share(ENTRY)
    assert room.store.entries == {KEY: ENTRY}


async def test_an_invalidation_elsewhere_is_obeyed_at_once(room: Room) -> None:
    """The short way stops before the change has been read; the long way reads it."""
    room.layer.keep(ENTRY)
    room.store.invalidate_all()
    assert room.layer.peek(KEY) is None
    assert await room.layer.lookup(KEY) is None


async def test_an_invalidation_here_is_obeyed_when_it_returns(room: Room) -> None:
    """In memory and in the store."""
    room.layer.keep(ENTRY)
    await room.layer.share(ENTRY)
    assert await room.layer.count(Selector()) == 1
    assert await room.layer.invalidate(Selector(model="model")) == 1
    assert room.layer.peek(KEY) is None
    assert await room.layer.count(Selector()) == 0


async def test_what_is_invalidated_during_a_read_does_not_come_back(room: Room) -> None:
    """The store had it when it was asked, and not when it answered."""
    room.store.entries[KEY] = ENTRY

    async def invalidated() -> None:
        room.store.invalidate_all()

    room.store.during["get"] = invalidated
    assert await room.layer.lookup(KEY) is None
    assert room.layer.peek(KEY) is None


async def test_what_was_made_after_an_invalidation_is_found(room: Room) -> None:
    """Also by who hears of the invalidation while it reads the entry."""
    later = replace(ENTRY, as_of=Position(1))
    room.store.entries[KEY] = later

    async def heard() -> None:
        room.store.change(lambda position: Invalidated(position, Selector(key=KEY)))

    room.store.during["get"] = heard
    assert await room.layer.lookup(KEY) == (later, Tier.DISK)
    assert room.layer.peek(KEY) is later


async def test_other_invalidations_during_a_read_do_no_harm(room: Room) -> None:
    """Only what is meant is gone."""
    room.store.entries[KEY] = ENTRY

    async def invalidated() -> None:
        room.store.change(lambda position: Invalidated(position, Selector(model="another")))

    room.store.during["get"] = invalidated
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.DISK)


async def test_nothing_read_before_a_lost_thread_is_believed(room: Room) -> None:
    """Nobody can say whether the entry was among what was lost."""
    room.store.entries[KEY] = ENTRY

    async def lost() -> None:
        room.store.change(Lost)

    room.store.during["get"] = lost
    assert await room.layer.lookup(KEY) is None


async def test_an_answer_made_during_a_read_is_found(room: Room) -> None:
    """Who asked the store just before the answer was there need not ask the model server."""

    async def made() -> None:
        room.layer.keep(ENTRY)

    room.store.during["get"] = made
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.MEMORY)


async def test_a_newer_answer_is_not_overwritten_by_a_slow_read(room: Room) -> None:
    """The store's is the older one."""
    newer = replace(ENTRY, answer=Answer(Form.JSON, b"{}"), created_at=1_001.0)
    room.store.entries[KEY] = ENTRY

    async def made() -> None:
        room.layer.keep(newer)

    room.store.during["get"] = made
    assert await room.layer.lookup(KEY) == (newer, Tier.MEMORY)
    assert room.layer.peek(KEY) is newer


@pytest.mark.parametrize(
    ("selector", "kept"),
    [
        (Selector(), False),
        (Selector(model="model"), False),
        (Selector(tag="a"), False),
        (Selector(model="another"), True),
        (Selector(tag="another"), True),
    ],
)
async def test_an_answer_on_its_way_is_kept_out(
    room: Room, selector: Selector, *, kept: bool
) -> None:
    """If an invalidation that came after the question means it."""
    as_of = room.layer.position()
    await room.layer.invalidate(selector)
    assert room.layer.keep(make_entry(as_of=as_of, tags=("a",))) is kept
    assert room.layer.keep(make_entry(as_of=room.layer.position(), tags=("a",)))


async def test_an_answer_older_than_all_that_is_remembered_is_kept_out(room: Room) -> None:
    """However many invalidations there were; whether one meant it, nobody knows any more."""
    as_of = room.layer.position()
    for _ in range(RECENT_INVALIDATIONS + 1):
        room.store.change(lambda position: Invalidated(position, Selector(model="another")))
    await room.layer.catch_up()
    assert not room.layer.keep(make_entry(as_of=as_of))
    assert room.layer.keep(make_entry(as_of=as_of + 1))


async def test_the_last_invalidation_is_known(room: Room) -> None:
    """Other changes do not count; after a lost thread, anything may have been one."""
    positions = [room.layer.last_invalidation()]
    room.store.move("faq", "v1")
    room.store.change(lambda position: Replaced(position, KEY))
    await room.layer.catch_up()
    positions.append(room.layer.last_invalidation())
    room.store.invalidate_all()
    await room.layer.catch_up()
    positions.append(room.layer.last_invalidation())
    room.store.change(Lost)
    await room.layer.catch_up()
    positions.append(room.layer.last_invalidation())
    assert positions == [0, 0, 3, 4]


async def test_an_answer_that_the_store_refuses_is_forgotten(room: Room) -> None:
    """It was invalidated before this worker could know."""
    room.layer.keep(ENTRY)
    room.store.invalidate_all()
    await room.layer.share(ENTRY)
    assert room.store.entries == {}
    assert await room.layer.lookup(KEY) is None


async def test_a_replaced_entry_is_read_anew(room: Room) -> None:
    """Another worker has a newer one."""
    newer = replace(ENTRY, created_at=1_001.0)
    room.layer.keep(ENTRY)
    room.store.entries[KEY] = newer
    room.store.change(lambda position: Replaced(position, KEY))
    assert room.layer.peek(KEY) is None
    assert await room.layer.lookup(KEY) == (newer, Tier.DISK)


@pytest.mark.parametrize("error", [DOWN, CorruptEntry("damaged")])
async def test_a_store_that_fails_to_read_is_a_miss(room: Room, error: StoreError) -> None:
    """What memory has is still served; a damaged record was counted by the store itself."""
    room.layer.keep(ENTRY)
    room.store.fails["get"] = error
    assert await room.layer.lookup(make_key("another")) is None
    assert room.layer.peek(KEY) is ENTRY
    expected = [Degraded("store.disk", "the disk is gone")] if error is DOWN else []
    assert room.degraded == expected


async def test_a_store_that_fails_to_write_costs_nobody_an_answer(room: Room) -> None:
    """This worker has it; the others do not; it is an event."""
    room.store.fails["put"] = StoreFull("full")
    room.layer.keep(ENTRY)
    await room.layer.share(ENTRY)
    assert room.layer.peek(KEY) is ENTRY
    assert room.degraded == [Degraded("store.disk", "full")]


@pytest.mark.parametrize("method", ["count", "invalidate"])
async def test_an_operator_hears_of_a_failure(room: Room, method: str) -> None:
    """Somebody asked for this to be forgotten, so it must not fail in silence."""
    room.store.fails[method] = DOWN
    with pytest.raises(StoreUnavailable):
        await getattr(room.layer, method)(Selector())


async def test_a_feed_that_fails_makes_memory_forget(room: Room) -> None:
    """Rather than serve what may be gone; when it works again, so does everything."""
    room.store.entries[KEY] = ENTRY
    room.layer.keep(ENTRY)
    room.store.change(lambda position: Replaced(position, make_key("another")))
    room.store.fails["read"] = DOWN
    room.store.fails["get"] = DOWN
    for _ in range(2):
        assert await room.layer.lookup(KEY) is None
        assert room.layer.peek(KEY) is None
    assert Degraded("store.disk", "the disk is gone") in room.degraded

    room.store.fails.clear()
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.DISK)
    assert room.layer.peek(KEY) is ENTRY


async def test_a_feed_that_cannot_be_heard_is_waited_for(room: Room) -> None:
    """Nothing is served meanwhile, nothing is forgotten, and nobody is told twice."""
    room.store.entries[KEY] = ENTRY
    other = replace(ENTRY, key=make_key("another"))
    room.layer.keep(ENTRY)
    room.layer.keep(other)
    room.store.change(lambda position: Replaced(position, other.key))
    room.store.fails["read"] = CutOff("no word for a second")
    for _ in range(2):
        assert room.layer.peek(KEY) is None
        assert await room.layer.lookup(KEY) is None
    assert room.store.gets == 0
    assert room.degraded == []

    room.store.fails.clear()
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.MEMORY)
    assert await room.layer.lookup(other.key) is None


async def test_sources_are_looked_up_for_the_namespace_first(room: Room) -> None:
    """Then for everybody."""
    room.store.sources = {(TENANT, "faq"): "own", (EVERYONE, "faq"): "all", (EVERYONE, "b"): "b"}
    await room.layer.load_sources()
    values = [
        room.layer.source_value(namespace, name)
        for namespace in (TENANT, make_namespace("another"))
        for name in ("faq", "b", "c")
    ]
    assert values == ["own", "b", None, "all", "b", None]


async def test_a_move_is_known_when_it_returns(room: Room) -> None:
    """And a move to where the source is already changes nothing."""
    assert await room.layer.move_source(TENANT, SourceValue("faq", "v1"))
    assert room.layer.source_value(TENANT, "faq") == "v1"
    assert not await room.layer.move_source(TENANT, SourceValue("faq", "v1"))
    assert room.store.gets == 0


async def test_a_move_that_fails_is_heard(room: Room) -> None:
    """The caller decides what that means."""
    room.store.fails["move_source"] = DOWN
    with pytest.raises(StoreUnavailable):
        await room.layer.move_source(TENANT, SourceValue("faq", "v1"))


async def test_a_move_for_everybody_takes_single_values_away(room: Room) -> None:
    """As `Feed.move_source` says; values of other names stay."""
    room.store.move("faq", "own")
    room.store.move("other", "own")
    room.store.move("faq", "all", EVERYONE)
    await room.layer.catch_up()
    assert room.layer.source_value(TENANT, "faq") == "all"
    assert room.layer.source_value(TENANT, "other") == "own"


async def test_a_move_elsewhere_counts_before_anything_is_served(room: Room) -> None:
    """Nothing is found between the reading of a change and its effect."""
    room.layer.keep(ENTRY)
    room.store.move("faq", "v2")
    seen: list[tuple[Entry | None, str | None]] = []

    async def peeks() -> None:
        seen.append((room.layer.peek(KEY), room.layer.source_value(TENANT, "faq")))

    room.store.during["read"] = peeks
    room.store.during["source_values"] = peeks
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.MEMORY)
    await peeks()
    assert seen == [(None, None), (ENTRY, "v2")]


async def test_an_invalidation_counts_before_sources_are_read_anew(room: Room) -> None:
    """A lost thread means both; memory is empty, and what depends on a source is not fresh."""
    room.layer.keep(ENTRY)
    room.store.sources[TENANT, "faq"] = "v2"
    room.store.change(Lost)
    seen: list[object] = []

    async def others() -> None:
        seen.append(room.layer.peek(KEY))
        seen.append(room.layer.source_to_judge_by(TENANT, "faq"))
        seen.append(room.layer.source_to_judge_by(TENANT, "unset"))

    room.store.during["source_values"] = others
    assert await room.layer.lookup(KEY) is None
    assert seen == [None, "\0", "\0"]
    assert room.layer.source_to_judge_by(TENANT, "faq") == "v2"
    assert room.layer.source_to_judge_by(TENANT, "unset") is None


@pytest.mark.parametrize("when", ["at the start", "after a lost thread"])
async def test_without_sources_the_store_is_not_read(room: Room, when: str) -> None:
    """Nobody can say what of it is fresh; every lookup tries to read them again.

    What was made since is in memory, and fresh unless it depends on a source.
    """
    room.store.entries[KEY] = ENTRY
    room.store.fails["source_values"] = DOWN
    if when == "at the start":
        await room.layer.load_sources()
    else:
        room.store.change(Lost)
        await room.layer.catch_up()
    assert await room.layer.lookup(KEY) is None
    room.layer.keep(make_entry("in memory", as_of=room.layer.position()))
    assert room.layer.peek(make_key("in memory")) is not None
    assert room.layer.source_to_judge_by(TENANT, "faq") == "\0"
    assert set(room.degraded) == {Degraded("store.disk", "the disk is gone")}

    room.store.fails.clear()
    assert await room.layer.lookup(KEY) == (ENTRY, Tier.DISK)


async def test_sources_that_are_lost_during_a_read_hide_what_was_read(room: Room) -> None:
    """The entry was there; whether it is still fresh, nobody can say."""
    room.store.entries[KEY] = ENTRY

    async def lost() -> None:
        room.store.change(Lost)
        room.store.fails["source_values"] = DOWN

    room.store.during["get"] = lost
    assert await room.layer.lookup(KEY) is None


async def test_two_may_catch_up_at_a_time(room: Room) -> None:
    """Values that one began to read do not undo a move that the other has read since."""
    room.store.sources[TENANT, "faq"] = "v1"
    room.store.change(Lost)
    go_on = asyncio.Event()
    room.store.during["source_values"] = go_on.wait
    first = asyncio.create_task(room.layer.lookup(KEY))
    await settle()
    assert not room.store.behind()
    room.store.move("faq", "v2")
    await room.layer.lookup(KEY)
    go_on.set()
    await first
    assert room.layer.source_value(TENANT, "faq") == "v2"


async def test_the_store_hears_of_uses_it_did_not_see(room: Room) -> None:
    """When it is read anyway, so that no timer is needed; each use once."""
    room.store.entries[KEY] = ENTRY
    await room.layer.lookup(KEY)
    for _ in range(3):
        room.layer.peek(KEY)
    await room.layer.lookup(KEY)
    assert room.store.touched == []
    await room.layer.lookup(make_key("unknown"))
    await room.layer.lookup(make_key("unknown"))
    assert room.store.touched == [{KEY: 5}]


async def test_uses_of_many_keys_are_told_at_once(room: Room) -> None:
    """A worker that never reads its store tells it all the same, in bounded pieces."""
    entries = [make_entry(f"q{number}") for number in range(MAX_UNTOLD_KEYS + 1)]
    for entry in entries:
        room.layer.keep(entry)
        room.layer.peek(entry.key)
    assert room.store.touched == [{entry.key: 1 for entry in entries[:MAX_UNTOLD_KEYS]}]


async def test_a_miss_is_no_use(room: Room) -> None:
    """Only what was found counts."""
    room.layer.peek(KEY)
    await room.layer.lookup(KEY)
    await room.layer.lookup(KEY)
    assert room.store.touched == []


async def test_a_store_that_cannot_be_told_is_left_alone() -> None:
    """The capability is optional."""

    class Plain:
        def __init__(self, store: HandStore) -> None:
            for name in ("tier", "get", "put", "count", "invalidate", "revoke", "aclose"):
                setattr(self, name, getattr(store, name))

    hand = HandStore(entries={KEY: ENTRY})
    memory = MemoryStore(Lru(), max_entries=9, max_bytes=1 << 20, clock=HandClock(), events=Heard())
    layer = ExactLayer(memory, Plain(hand), hand, events=Heard())  # type: ignore[arg-type]
    assert await layer.lookup(KEY) == (ENTRY, Tier.DISK)
    assert layer.peek(KEY) is ENTRY
    await layer.lookup(make_key("unknown"))
    assert hand.touched == []
