"""The memory tier: what it keeps, what leaves first, and what it says about it."""

from collections.abc import Callable

import pytest

from stepwell.core.changes import Change, Invalidated, Lost, Replaced, SourceMoved
from stepwell.core.entry import ENTRY_OVERHEAD_BYTES, Selector
from stepwell.core.events import Event, Evicted
from stepwell.core.names import Position, Tier
from stepwell.core.ports import EvictionPolicy
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.eviction.lfu import Lfu
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_namespace


class Heard:
    """A sink that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Keep ``event``."""
        self.events.append(event)


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands at the moment `make_entry` makes its entries."""
    return HandClock(1_000.0)


@pytest.fixture
def heard() -> Heard:
    """What the store says."""
    return Heard()


@pytest.fixture
def make_store(clock: HandClock, heard: Heard) -> Callable[..., MemoryStore]:
    """Make a store that is large unless told otherwise."""

    def make(
        *, policy: EvictionPolicy | None = None, max_entries: int = 100, max_bytes: int = 10**6
    ) -> MemoryStore:
        return MemoryStore(
            policy or Lru(),
            max_entries=max_entries,
            max_bytes=max_bytes,
            clock=clock,
            events=heard,
        )

    return make


def names_held(store: MemoryStore, names: str) -> str:
    """Return those of the one-letter ``names`` that ``store`` holds, without reading them."""
    return "".join(name for name in names if store.count(Selector(key=make_key(name))))


def test_get_what_was_put(make_store: Callable[..., MemoryStore]) -> None:
    """An entry comes back as it was; a key that was never put is a miss."""
    store = make_store()
    entry = make_entry("a")
    assert store.put(entry)
    assert store.get(entry.key) is entry
    assert store.get(make_key("b")) is None


def test_put_replaces(make_store: Callable[..., MemoryStore], heard: Heard) -> None:
    """The newer entry under a key is the only one, and only its bytes count."""
    store = make_store()
    store.put(make_entry("a", body=b"older and longer"))
    newer = make_entry("a", body=b"newer")
    store.put(newer)
    assert store.get(newer.key) is newer
    assert (len(store), store.size_bytes) == (1, newer.size_bytes)
    assert heard.events == []


@pytest.mark.parametrize("bound", ["max_entries", "max_bytes"])
def test_bounds_must_allow_something(make_store: Callable[..., MemoryStore], bound: str) -> None:
    """A bound below one is refused, with its name and value."""
    with pytest.raises(ValueError, match=f"{bound} is 0; it must be at least 1"):
        make_store(**{bound: 0})


def test_stale_entry_is_served_until_keep_until(
    make_store: Callable[..., MemoryStore], clock: HandClock, heard: Heard
) -> None:
    """An entry is kept past its expiry as long as it may be served stale, then removed on sight."""
    store = make_store()
    entry = make_entry("a", ttl_seconds=60, stale_seconds=30)
    store.put(entry)
    clock.seconds = 1_089.0
    assert store.get(entry.key) is entry
    clock.seconds = 1_090.0
    assert store.get(entry.key) is None
    assert (len(store), store.size_bytes) == (0, 0)
    assert heard.events == [Evicted(Tier.MEMORY, "expired", 1, entry.size_bytes)]


def test_entries_bound(make_store: Callable[..., MemoryStore], heard: Heard) -> None:
    """A full store lets go of one entry for each that comes in."""
    store = make_store(max_entries=3)
    for name in "abcde":
        store.put(make_entry(name))
    size = make_entry("a").size_bytes
    assert names_held(store, "abcde") == "cde"
    assert heard.events == [Evicted(Tier.MEMORY, "capacity", 1, size)] * 2


def test_bytes_bound(make_store: Callable[..., MemoryStore], heard: Heard) -> None:
    """A large entry takes the room of several small ones, told as one event."""
    small = 100 + ENTRY_OVERHEAD_BYTES
    store = make_store(max_bytes=4 * small)
    for name in "abcd":
        store.put(make_entry(name, body=b"s" * 100))
    large = make_entry("L", body=b"l" * (100 + small))
    assert store.put(large)
    assert names_held(store, "abcdL") == "cdL"
    assert store.size_bytes == 4 * small
    assert heard.events == [Evicted(Tier.MEMORY, "capacity", 2, 2 * small)]


def test_entry_larger_than_the_store(make_store: Callable[..., MemoryStore], heard: Heard) -> None:
    """What cannot fit is not stored and pushes nothing out but the older entry under its key."""
    store = make_store(max_bytes=3_000)
    older = make_entry("a")
    store.put(older)
    store.put(make_entry("b"))
    assert not store.put(make_entry("a", body=b"l" * 3_000))
    assert names_held(store, "ab") == "b"
    assert heard.events == [Evicted(Tier.MEMORY, "replaced", 1, older.size_bytes)]
    assert not store.put(make_entry("c", body=b"l" * 3_000))
    assert len(heard.events) == 1


def test_growing_entry_makes_room_for_itself(make_store: Callable[..., MemoryStore]) -> None:
    """Replacing an entry by a larger one holds the bounds, whatever the policy gives up."""
    small = make_entry("a", body=b"").size_bytes
    store = make_store(max_bytes=3 * small)
    for name in "abc":
        store.put(make_entry(name, body=b""))
    grown = make_entry("a", body=b"l" * small)
    assert store.put(grown)
    assert store.get(grown.key) is grown
    assert store.size_bytes <= 3 * small


@pytest.mark.parametrize("make_policy", [Lru, Lfu, Adaptive])
def test_expired_first_then_least_used(
    make_store: Callable[..., MemoryStore],
    make_policy: Callable[[], EvictionPolicy],
    clock: HandClock,
    heard: Heard,
) -> None:
    """Expired entries leave first, however hot; then cold ones; hot entries survive."""
    store = make_store(policy=make_policy(), max_entries=6)
    for name in "xy":
        store.put(make_entry(name, ttl_seconds=10))
    for name in "hijk":
        store.put(make_entry(name))
    for name in "hixyxyxyxy":
        assert store.get(make_key(name))
    clock.seconds = 1_010.0
    for name in "01":
        store.put(make_entry(name))
    assert names_held(store, "xyhijk01") == "hijk01"
    for name in "23456789":
        for hot in "hi":
            assert store.get(make_key(hot)), f"{hot} left before {name}"
        store.put(make_entry(name))
    assert names_held(store, "hi") == "hi"
    size = make_entry("x").size_bytes
    assert heard.events == [
        *[Evicted(Tier.MEMORY, "expired", 1, size)] * 2,
        *[Evicted(Tier.MEMORY, "capacity", 1, size)] * 8,
    ]


def test_expired_entry_that_was_renewed_stays(
    make_store: Callable[..., MemoryStore], clock: HandClock
) -> None:
    """Only the entry that is held decides; the expiry of the one it replaced is forgotten."""
    store = make_store(max_entries=2)
    store.put(make_entry("a", ttl_seconds=10))
    store.put(make_entry("b"))
    store.put(make_entry("a", ttl_seconds=1_000))
    clock.seconds = 1_500.0
    store.put(make_entry("c"))
    assert names_held(store, "abc") == "ac"


def test_clock_that_jumps(make_store: Callable[..., MemoryStore], clock: HandClock) -> None:
    """A clock set back or forth expires what it says is expired, and never breaks the bounds."""
    store = make_store(max_entries=2)
    store.put(make_entry("a", ttl_seconds=10))
    store.put(make_entry("b"))
    clock.seconds = 0.0
    store.put(make_entry("c", ttl_seconds=7_200))
    assert names_held(store, "abc") == "bc"
    clock.seconds = 1e9
    store.put(make_entry("d", created_at=1e9))
    assert names_held(store, "abcd") == "cd"
    assert store.get(make_key("c")) is None
    clock.seconds = 1_000.0
    assert store.get(make_key("d")) is not None
    assert len(store) == 1


def test_expiry_is_noted_once_for_each_entry(make_store: Callable[..., MemoryStore]) -> None:
    """Replacing one entry for ever does not grow the store's memory of expiries."""
    store = make_store()
    for second in range(10_000):
        store.put(make_entry("a", ttl_seconds=second))
    assert len(store._expiries) < 100


INVALIDATIONS = [
    (Selector(), ""),
    (Selector(key=make_key("a")), "bcd"),
    (Selector(namespace=make_namespace("other")), "abc"),
    (Selector(tag="faq"), "ad"),
    (Selector(model="small", tag="faq"), "abd"),
    (Selector(request_class="factual"), "abcd"),
    (Selector(key=make_key("a"), tag="faq"), "abcd"),
]


def fill(store: MemoryStore) -> int:
    """Put four entries that differ in what selectors look at; return their size."""
    store.put(make_entry("a", as_of=5))
    store.put(make_entry("b", as_of=5, tags=("faq",)))
    store.put(make_entry("c", as_of=5, tags=("faq", "returns"), model="small"))
    store.put(make_entry("d", as_of=5, namespace="other"))
    return store.size_bytes


@pytest.mark.parametrize(("selector", "left"), INVALIDATIONS)
def test_invalidate(
    make_store: Callable[..., MemoryStore], heard: Heard, selector: Selector, left: str
) -> None:
    """Exactly what the selector means leaves, is counted before, returned, and told."""
    store = make_store()
    filled = fill(store)
    gone = 4 - len(left)
    assert store.count(selector) == gone
    assert store.invalidate(selector) == gone
    assert names_held(store, "abcd") == left
    size = filled - store.size_bytes
    assert heard.events == ([Evicted(Tier.MEMORY, "invalidated", gone, size)] if gone else [])


CHANGES = [
    (Invalidated(Position(6), Selector(tag="faq")), "ad", "invalidated"),
    (Invalidated(Position(5), Selector(tag="faq")), "abcd", None),
    (Replaced(Position(6), make_key("b")), "acd", "replaced"),
    (Replaced(Position(6), make_key("z")), "abcd", None),
    (SourceMoved(Position(6), make_namespace("tenant"), "faq:returns", "v8"), "abcd", None),
    (Lost(Position(6)), "", "invalidated"),
]


@pytest.mark.parametrize(("change", "left", "reason"), CHANGES)
def test_apply(
    make_store: Callable[..., MemoryStore],
    heard: Heard,
    change: Change,
    left: str,
    reason: str | None,
) -> None:
    """A change of the feed removes what it makes untrue, not what was made after it."""
    store = make_store()
    fill(store)
    store.apply(change)
    assert names_held(store, "abcd") == left
    reasons = [event.reason for event in heard.events if isinstance(event, Evicted)]
    assert reasons == ([reason] if reason else [])


def test_cleared_store_starts_anew(make_store: Callable[..., MemoryStore]) -> None:
    """After `clear` nothing is held, and the store fills up to its bounds again."""
    store = make_store(max_entries=3)
    fill(store)
    store.clear()
    assert (len(store), store.size_bytes) == (0, 0)
    for name in "wxyz":
        store.put(make_entry(name))
    assert names_held(store, "abcdwxyz") == "xyz"
