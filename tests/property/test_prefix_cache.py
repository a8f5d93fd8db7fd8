"""`PrefixCache` under anything that can happen to it, against brute force and its own rules."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.kv_shelves import (
    BLOCK,
    DictStore,
    Kv,
    audit,
    cutter,
    keep,
    levels,
    load,
    make_cache,
    prompt,
    scope,
)

from stepwell.core.kv import KvScope, Tokens
from stepwell.prefix.admission import FirstSight, SecondSight
from stepwell.prefix.cache import PrefixCache
from stepwell.prefix.leases import Lease
from stepwell.prefix.policies import CostAware, Lfu, Lru
from stepwell.prefix.shelves import Level
from stepwell.testing.clock import HandClock

PROMPTS = st.lists(st.integers(0, 1), max_size=7).map(lambda numbers: prompt(*numbers))
SCOPES = st.sampled_from([scope("a"), scope("b"), scope("a", b"t"), scope("a", b"u")])
POLICIES = st.sampled_from([Lru, Lfu, CostAware])


def longest_common(kept: Sequence[bytes], tokens: bytes) -> int:
    """Return the most leading tokens, in whole blocks, that ``tokens`` shares with one kept."""
    most = 0
    step = BLOCK * 4
    for one in kept:
        end = step
        while end <= min(len(one), len(tokens) - 4) and one[:end] == tokens[:end]:
            end += step
        most = max(most, end - step)
    return most // 4


class CacheMachine(RuleBasedStateMachine):
    """A small cache with all its shelves, under pressure, damage, lost leases and pins."""

    @initialize(
        exact=st.integers(0, 6),
        compact=st.none() | st.integers(0, 4),
        disk=st.none() | st.integers(0, 8),
        tenant=st.none() | st.integers(0, 4),
        policy=POLICIES,
        doorkeeper=st.booleans(),
    )
    def begin(
        self,
        exact: int,
        compact: int | None,
        disk: int | None,
        tenant: int | None,
        policy: type[Lru | Lfu | CostAware],
        doorkeeper: bool,  # noqa: FBT001
    ) -> None:
        """Make the cache."""
        self.clock = HandClock()
        self.store = DictStore()
        self.disk = disk
        self.exact = exact
        self.unhindered = compact is None and tenant is None and not doorkeeper
        """Whether all that is kept must be in memory then, as far as it fits."""
        self.cache: PrefixCache[Kv] = make_cache(
            exact=exact,
            compact=compact,
            disk=disk,
            store=self.store,
            tenant=tenant,
            policy=policy(),
            admission=SecondSight(64) if doorkeeper else FirstSight(),
            clock=self.clock,
        )
        self.kept: dict[KvScope, list[bytes]] = {}
        self.leases: list[tuple[Lease[Kv], Tokens]] = []

    def teardown(self) -> None:
        """After everything was let go, nothing is held and no room is reserved."""
        for lease, _ in self.leases:
            lease.release()
        self.clock.seconds += 1_000
        self.cache.lease(scope("a"), prompt()).release()
        self.cache.flush(timeout_seconds=10)
        audit(self.cache)
        assert self.cache.figures().pinned_bytes == 0
        self.cache.close()
        assert not self.cache._writer or not self.cache._writer._thread.is_alive()

    @rule(tokens=PROMPTS, of=SCOPES, asked=st.integers(0, 30))
    def keep(self, tokens: Tokens, of: KvScope, asked: int) -> None:
        """Keep a prompt, and wait until it is written."""
        self.kept.setdefault(of, []).append(tokens)
        keep(self.cache, tokens, of, asked=asked)
        assert self.cache.flush(timeout_seconds=10)
        if self.unhindered and not self.leases and not len(self.cache._pins):
            there = [level for level in levels(self.cache, tokens, of) if level is Level.EXACT]
            assert len(there) == min(self.exact, len(tokens) // 4 // BLOCK)

    @rule(tokens=PROMPTS, of=SCOPES, kind=st.sampled_from(["raises", "too few"]))
    def fail_to_keep(self, tokens: Tokens, of: KvScope, kind: str) -> None:
        """An error while cutting goes through, and leaves nothing behind."""

        def cut(start: int, end: int) -> list[Kv]:
            if kind == "raises":
                raise MemoryError(kind)
            return list(cutter(tokens)(start, end))[:-1]

        before = self.cache.figures().added_blocks
        with suppress(MemoryError, ValueError):
            self.cache.keep(of, tokens, cut, prompt_tokens=99, seconds_per_token=0.001)
        assert self.cache.figures().added_blocks == before

    @rule(tokens=PROMPTS, of=SCOPES)
    def load(self, tokens: Tokens, of: KvScope) -> None:
        """What is loaded are the right blocks, and no more than were ever kept."""
        found = load(self.cache, tokens, of)
        assert len(found) * BLOCK <= longest_common(self.kept.get(of, []), tokens)

    @rule(tokens=PROMPTS, of=SCOPES)
    def lend(self, tokens: Tokens, of: KvScope) -> None:
        """Borrow, and forget to give back for now."""
        self.leases.append((self.cache.lease(of, tokens), tokens))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), twice=st.booleans())
    def give_back(self, data: st.DataObject, twice: bool) -> None:  # noqa: FBT001
        """Give back one of them; a second time does nothing."""
        lease, _ = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))
        lease.release()
        if twice:
            lease.release()
        assert lease.load() == []

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def load_later(self, data: st.DataObject) -> None:
        """What is leased is there, unless it was damaged, whatever came meanwhile."""
        lease, tokens = data.draw(st.sampled_from(self.leases))
        matched, lost = lease.matched_tokens, self.cache.figures().lost_blocks
        found = list(lease.load())
        assert [block.path for block in found] == [
            tokens[: (number + 1) * BLOCK * 4] for number in range(len(found))
        ]
        if len(found) * BLOCK < matched:
            assert self.cache.figures().lost_blocks > lost or self.spoilt

    spoilt = False

    @rule(number=st.integers(0, 7))
    def spoil(self, number: int) -> None:
        """A file goes away."""
        assert self.cache.flush(timeout_seconds=10)
        for name in self.store.names()[number : number + 1]:
            del self.store.blocks[name.id]
            self.spoilt = True

    @rule(full=st.booleans())
    def fill_disk(self, full: bool) -> None:  # noqa: FBT001
        """The disk gets full, or is not any more."""
        self.store.full = full

    @rule(tokens=PROMPTS, of=SCOPES)
    def pin(self, tokens: Tokens, of: KvScope) -> None:
        """Pin, if it has a block."""
        if len(tokens) > 4:
            held = self.cache.pin(of, tokens, ttl_seconds=30)
            assert held <= longest_common(self.kept.get(of, []), Tokens(tokens + bytes(4)))
        else:
            with pytest.raises(ValueError, match="at least"):
                self.cache.pin(of, tokens, ttl_seconds=30)

    @rule(tokens=PROMPTS, of=SCOPES)
    def unpin(self, tokens: Tokens, of: KvScope) -> None:
        """Unpin, whether it was pinned or not."""
        self.cache.unpin(of, tokens)

    @rule(seconds=st.sampled_from([1, 29, 61]))
    def wait(self, seconds: int) -> None:
        """Time passes: leases and pins end."""
        self.clock.seconds += seconds
        self.cache.lease(scope("a"), prompt()).release()
        self.leases = [
            (lease, tokens) for lease, tokens in self.leases if lease.deadline > self.clock.seconds
        ]

    @invariant()
    def sound(self) -> None:
        """All rules hold, and no bound was passed, not even for a moment."""
        if hasattr(self, "cache"):
            audit(self.cache, idle=False)
            assert self.store.most <= (self.disk or 0)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    kept=st.lists(st.tuples(SCOPES, PROMPTS), max_size=12),
    asked=st.lists(st.tuples(SCOPES, PROMPTS), max_size=12),
    compact=st.none() | st.integers(0, 4),
)
def test_with_room_for_all_the_longest_prefix_is_found(
    kept: list[tuple[KvScope, Tokens]], asked: list[tuple[KvScope, Tokens]], compact: int | None
) -> None:
    """If nothing has to leave, what is found is what brute force finds, scope by scope."""
    cache = make_cache(compact=compact)
    for of, tokens in kept:
        keep(cache, tokens, of)
    for of, tokens in asked:
        own = [one for other, one in kept if other == of]
        assert len(load(cache, tokens, of)) * BLOCK == longest_common(own, tokens)
    audit(cache)
