"""The contract of eviction policies, for every policy of the house, and for broken ones."""

from collections import OrderedDict
from collections.abc import Callable

import pytest

from stepwell.core.names import CacheKey
from stepwell.core.ports import EvictionPolicy
from stepwell.stores.eviction.adaptive import PENDING_HITS, PLANS, SHADOW_ENTRIES, Adaptive
from stepwell.stores.eviction.lfu import Lfu
from stepwell.stores.eviction.lru import Lru
from stepwell.testing.entries import make_key
from stepwell.testing.policy_contract import check_eviction_policy, count_hits


def test_lru() -> None:
    """LRU keeps the contract and remembers nothing that is gone."""
    check_eviction_policy(Lru)


def test_lfu() -> None:
    """LFU keeps the contract and remembers nothing that is gone."""
    check_eviction_policy(Lfu)


def test_adaptive() -> None:
    """The adaptive policy keeps the contract within the ghosts it documents."""
    check_eviction_policy(Adaptive, ghost_keys=PENDING_HITS + len(PLANS) * SHADOW_ENTRIES)


class ForgetsDeletions(Lru):
    """Gives up keys that were deleted."""

    def on_delete(self, key: CacheKey) -> None:
        """Do nothing."""


class GivesUpTwice(Lru):
    """Gives up a key and keeps it."""

    def victim(self) -> CacheKey:
        """Return the oldest key but do not forget it, unless it is the only one."""
        if len(self._order) > 1:
            return next(iter(self._order))
        return super().victim()


class RefusesUnknown(Lru):
    """Fails when a key it does not hold is deleted."""

    def on_delete(self, key: CacheKey) -> None:
        """Forget ``key``, or fail."""
        del self._order[key]


class NeverForgets(Lru):
    """Remembers every key it ever saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: OrderedDict[CacheKey, None] = OrderedDict()

    def on_put(self, key: CacheKey, size_bytes: int) -> None:
        """Note ``key`` for ever."""
        self.seen[key] = None
        super().on_put(key, size_bytes)


@pytest.mark.parametrize("broken", [ForgetsDeletions, GivesUpTwice, RefusesUnknown, NeverForgets])
def test_broken_policy_is_caught(broken: Callable[[], EvictionPolicy]) -> None:
    """The check fails for a policy with a fault, so that passing it means something."""
    with pytest.raises((AssertionError, KeyError)):
        check_eviction_policy(broken)


def replay(policy: EvictionPolicy, requests: list[str], max_entries: int) -> int:
    """Return the hits of a cache of ``max_entries`` under ``policy``."""
    return count_hits(policy, map(make_key, requests), max_entries=max_entries)


def test_lru_gives_up_the_least_recently_used() -> None:
    """Both reading and replacing a key put it last in the order of leaving."""
    policy = Lru()
    for name in "abcd":
        policy.on_put(make_key(name), 1_000)
    policy.on_hit(make_key("a"))
    policy.on_put(make_key("c"), 1_000)
    assert [policy.victim() for _ in "abcd"] == [make_key(name) for name in "bdac"]


def test_lfu_gives_up_the_least_used_then_the_least_recent() -> None:
    """Fewer uses leave first; among equals the one used longest ago."""
    policy = Lfu()
    for name in "abcd":
        policy.on_put(make_key(name), 1_000)
    for name in "aacb":
        policy.on_hit(make_key(name))
    assert [policy.victim() for _ in "abcd"] == [make_key(name) for name in "dcba"]


def test_lfu_lets_go_of_yesterdays_hot_key() -> None:
    """A key that was read a thousand times does not outlive its day."""
    policy = Lfu()
    policy.on_put(make_key("yesterday"), 1_000)
    for _ in range(1_000):
        policy.on_hit(make_key("yesterday"))
    policy.on_put(make_key("other"), 1_000)
    victims: list[CacheKey] = []
    for day in range(100):
        victims.append(policy.victim())
        policy.on_put(make_key(f"today {day}"), 1_000)
    assert make_key("yesterday") in victims


def test_adaptive_keeps_part_of_a_loop_that_does_not_fit() -> None:
    """Where LRU has no hit at all, three quarters of the best possible are kept."""
    loop = [str(number) for number in range(300)] * 30
    assert replay(Lru(), loop, 100) == 0
    best = 100 * 29
    assert replay(Adaptive(), loop, 100) > 0.75 * best


def test_adaptive_follows_bursts() -> None:
    """Where every key is asked for three times in a row and never again, it is LRU's equal."""
    bursts = [str(number // 3) for number in range(3_000)]
    assert replay(Adaptive(), bursts, 100) == replay(Lru(), bursts, 100) == 2_000


def test_adaptive_changes_its_mind() -> None:
    """After a long loop, spread bursts are served nearly as if there had been none."""
    loop = [str(number) for number in range(300)] * 30
    bursts = [f"burst {number // 2 - 40 * (number % 2)}" for number in range(20_000)]
    in_bursts = replay(Adaptive(), loop + bursts, 100) - replay(Adaptive(), loop, 100)
    assert in_bursts > 0.9 * replay(Lru(), bursts, 100) > 0.9 * 9_000


def test_adaptive_keeps_the_hot_set_through_a_scan() -> None:
    """A scan over ten thousand keys does not flush what is asked for all the time."""
    hot = [str(number) for number in range(80)]
    scan = [f"scan {number}" for number in range(10_000)]
    warm = hot * 20
    mixed = [key for number, cold in enumerate(scan) for key in (cold, hot[number % 80])]
    hits = replay(Adaptive(), warm + mixed, 100)
    assert hits > 0.95 * (len(warm) + len(mixed) / 2)
    assert replay(Lru(), warm + mixed, 100) < 0.5 * hits


def test_adaptive_learns_how_many_entries_fit() -> None:
    """The policy is never told the capacity, and follows when entries become smaller."""
    loop = [str(number) for number in range(1_500)] * 6
    policy = Adaptive()
    replay(policy, loop, 50)
    for _ in range(50):
        policy.victim()
    assert replay(Lru(), loop, 1_000) == 0
    assert replay(policy, loop, 1_000) > 0.75 * (1_000 * 5)
