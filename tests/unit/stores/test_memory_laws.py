"""Laws of the memory tier that hold after any history."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from stepwell.core.changes import Invalidated
from stepwell.core.entry import Entry, Selector
from stepwell.core.events import Event, Evicted
from stepwell.core.names import CacheKey, Position
from stepwell.core.ports import EvictionPolicy
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.eviction.lfu import Lfu
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key

MAX_ENTRIES = 5
MAX_BYTES = 4_000

NAMES = st.sampled_from("abcdefgh")
TAGS = st.sampled_from([(), ("faq",), ("faq", "returns")])


class MemoryMachine(RuleBasedStateMachine):
    """A store beside a dict of what was last put; as a sink, it hears what leaves."""

    make_policy: Callable[[], EvictionPolicy]

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock(1_000.0)
        self.last_put: dict[CacheKey, Entry] = {}
        self.entries_expected = 0
        self.store = MemoryStore(
            type(self).make_policy(),
            max_entries=MAX_ENTRIES,
            max_bytes=MAX_BYTES,
            clock=self.clock,
            events=self,
        )

    def emit(self, event: Event) -> None:
        """Count what leaves."""
        assert isinstance(event, Evicted)
        self.entries_expected -= event.entries

    def held(self) -> list[CacheKey]:
        """Return the keys the store holds, without reading them."""
        return [key for key in self.last_put if self.store.count(Selector(key=key))]

    @rule(
        name=NAMES,
        body_bytes=st.integers(0, 4_500),
        ttl_seconds=st.integers(0, 100),
        as_of=st.integers(0, 5),
        tags=TAGS,
    )
    def put(
        self, name: str, body_bytes: int, ttl_seconds: int, as_of: int, tags: tuple[str, ...]
    ) -> None:
        """What fits is stored, and there to be read unless it has expired already."""
        entry = make_entry(
            name,
            body=b"x" * body_bytes,
            created_at=self.clock.seconds,
            ttl_seconds=ttl_seconds,
            as_of=as_of,
            tags=tags,
        )
        was_held = entry.key in self.held()
        stored = self.store.put(entry)
        assert stored == (entry.size_bytes <= MAX_BYTES)
        if stored:
            self.last_put[entry.key] = entry
            self.entries_expected += not was_held
            assert (self.store.get(entry.key) is entry) == (ttl_seconds > 0)

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        """What is read is what was last put, unless it has left or expired."""
        key = make_key(name)
        was_held = key in self.held()
        entry = self.store.get(key)
        if was_held and self.clock.seconds < self.last_put[key].keep_until:
            assert entry is self.last_put[key]
        else:
            assert entry is None
            assert key not in self.held()

    @rule(seconds=st.integers(-150, 150))
    def turn_clock(self, seconds: int) -> None:
        """The clock may jump either way."""
        self.clock.seconds += seconds

    @rule(name=NAMES)
    def invalidate_key(self, name: str) -> None:
        """An invalidated key is gone."""
        self.store.invalidate(Selector(key=make_key(name)))
        assert make_key(name) not in self.held()

    @rule(position=st.integers(0, 6))
    def invalidate_tag(self, position: int) -> None:
        """A change of the feed removes the tagged entries made before it, and no others."""
        meant = {
            key
            for key in self.held()
            if "faq" in self.last_put[key].tags and self.last_put[key].as_of < position
        }
        left = [key for key in self.held() if key not in meant]
        self.store.apply(Invalidated(Position(position), Selector(tag="faq")))
        assert self.held() == left

    @rule()
    def clear(self) -> None:
        """A cleared store is empty."""
        self.store.clear()
        assert self.held() == []

    @invariant()
    def bounds_hold(self) -> None:
        """The store is never larger than it may be."""
        assert len(self.store) <= MAX_ENTRIES
        assert self.store.size_bytes <= MAX_BYTES

    @invariant()
    def counters_equal_a_recount(self) -> None:
        """Length, bytes, and the events told all agree with what is held."""
        held = self.held()
        assert len(self.store) == len(held) == self.entries_expected
        assert self.store.size_bytes == sum(self.last_put[key].size_bytes for key in held)

    @invariant()
    def tags_lead_to_what_is_held(self) -> None:
        """An entry is found by each of its tags, and no tag is kept that none carries."""
        held = [self.last_put[key] for key in self.held()]
        index = self.store._tags
        for tag in ("faq", "returns"):
            assert set(index.keys(tag)) == {entry.key for entry in held if tag in entry.tags}
        assert len(index) == len({tag for entry in held for tag in entry.tags})


@pytest.mark.parametrize("policy", [Lru, Lfu, Adaptive])
def test_laws(policy: Callable[[], EvictionPolicy]) -> None:
    """Bounds hold, counters never drift, and nothing but the last entry put is ever read."""

    class Machine(MemoryMachine):
        make_policy = staticmethod(policy)

    run_state_machine_as_test(
        Machine, settings=settings(deadline=None, max_examples=60, stateful_step_count=40)
    )
