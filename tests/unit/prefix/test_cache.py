"""`PrefixCache`: what stays, what leaves and in which order, pins, quotas, what is used."""

from dataclasses import replace

import pytest
from support.kv_shelves import (
    BLOCK,
    BLOCK_BYTES,
    LIMITS,
    DictStore,
    Kv,
    audit,
    blocks,
    cutter,
    ids,
    keep,
    levels,
    load,
    make_cache,
    prompt,
    scope,
)

from stepwell.core.kv import Adapter, KvCache, Tokens
from stepwell.prefix.admission import SecondSight
from stepwell.prefix.cache import Limits
from stepwell.prefix.policies import CostAware, Lfu
from stepwell.prefix.rate import RETRY_SECONDS
from stepwell.prefix.shelves import BlockName, Level
from stepwell.testing.clock import HandClock

EXACT, COMPACT, DISK = Level


def test_is_a_kv_cache() -> None:
    """It has the port's shape."""
    cache: KvCache[Kv] = make_cache()
    assert cache.block_tokens == BLOCK


def test_the_last_token_is_never_matched() -> None:
    """A model must compute at least one token to go on."""
    cache = make_cache()
    keep(cache, blocks(1, 2))
    assert len(load(cache, blocks(1, 2))) == 1
    assert len(load(cache, prompt(1, 2))) == 2


def test_odd_input() -> None:
    """Bytes that are no whole tokens are refused everywhere; no tokens at all are fine."""
    cache = make_cache()
    odd = Tokens(b"12345")
    with pytest.raises(ValueError, match="each token takes 4"):
        cache.lease(scope(), odd)
    with pytest.raises(ValueError, match="each token takes 4"):
        keep(cache, odd)
    with pytest.raises(ValueError, match="each token takes 4"):
        cache.pin(scope(), odd, ttl_seconds=1)
    with pytest.raises(ValueError, match="each token takes 4"):
        cache.unpin(scope(), odd)
    assert keep(cache, ids()) == 0
    assert load(cache, ids()) == []
    audit(cache)


def test_scopes_share_nothing() -> None:
    """Another model, another tenant: another root."""
    cache = make_cache()
    keep(cache, prompt(1, 2), scope("a", b"t"))
    assert load(cache, prompt(1, 2), scope("a", b"u")) == []
    assert load(cache, prompt(1, 2), scope("a")) == []
    assert load(cache, prompt(1, 2), scope("b", b"t")) == []
    assert len(load(cache, prompt(1, 2), scope("a", b"t"))) == 2


def test_adapters_of_one_name_share_nothing() -> None:
    """A reloaded one has another version, and the base model has none."""
    cache = make_cache()
    old, new = (replace(scope(), adapter=Adapter("support", version)) for version in ("1", "2"))
    keep(cache, prompt(1, 2), old)
    assert load(cache, prompt(1, 2), new) == []
    assert load(cache, prompt(1, 2), scope()) == []
    assert len(load(cache, prompt(1, 2), old)) == 2
    assert len({old.digest(), new.digest(), scope().digest()}) == 3


def test_scopes_without_blocks_leave_no_trace() -> None:
    """Ten thousand scopes that are asked for, or whose prompts are too short, take no memory."""
    cache = make_cache(limits=Limits(min_tokens=64))
    for number in range(10_000):
        load(cache, prompt(1), scope(str(number)))
        keep(cache, prompt(1), scope(str(number)))
    assert cache.figures().scopes == 0


def test_short_prefixes_are_neither_kept_nor_lent() -> None:
    """Below the least useful length, loading costs more than it saves."""
    cache = make_cache(limits=Limits(min_tokens=3 * BLOCK))
    assert keep(cache, prompt(1, 2)) == 0
    assert keep(cache, prompt(1, 2, 3)) == 3
    assert load(cache, prompt(1, 2, 9)) == []
    assert len(load(cache, prompt(1, 2, 3))) == 3
    assert cache.figures().refused_blocks["short"] == 2


def test_least_recently_used_leaves_from_its_tail() -> None:
    """What leaves is the end of the prompt that was used longest ago, never its middle."""
    cache = make_cache(exact=6)
    keep(cache, prompt(1, 2, 3))
    keep(cache, prompt(4, 5, 6))
    load(cache, prompt(1, 2, 3))
    keep(cache, prompt(7, 8))
    assert levels(cache, prompt(4, 5, 6)) == [EXACT]
    assert levels(cache, prompt(1, 2, 3)) == [EXACT] * 3
    assert cache.figures().shelves[EXACT].evicted_blocks == {"capacity": 2}
    audit(cache)


def test_shared_blocks_stay_as_long_as_one_follows() -> None:
    """A system prompt leaves only after everything that was kept behind it."""
    cache = make_cache(exact=4)
    keep(cache, prompt(1, 2))
    keep(cache, prompt(1, 3))
    keep(cache, prompt(8, 9))
    assert levels(cache, prompt(1, 3)) == [EXACT, EXACT]
    assert levels(cache, prompt(1, 2)) == [EXACT]


def test_output_leaves_before_prompts() -> None:
    """What was generated leaves first, until it is part of a prompt itself."""
    cache = make_cache(exact=6)
    keep(cache, prompt(1, 2, 3), asked=BLOCK)
    keep(cache, prompt(4, 5, 6), asked=BLOCK)
    keep(cache, prompt(4, 5, 6), asked=99)
    keep(cache, prompt(7, 8))
    assert levels(cache, prompt(1, 2, 3)) == [EXACT]
    assert levels(cache, prompt(4, 5, 6)) == [EXACT] * 3


def test_least_frequently_used_leaves_first() -> None:
    """With LFU, a prompt that was used often outlives one that was used lately."""
    cache = make_cache(exact=4, policy=Lfu())
    keep(cache, prompt(1, 2))
    load(cache, prompt(1, 2))
    keep(cache, prompt(3, 4))
    keep(cache, prompt(5))
    assert levels(cache, prompt(1, 2)) == [EXACT] * 2
    assert levels(cache, prompt(3, 4)) == [EXACT]


def test_what_was_popular_yesterday_leaves_one_day() -> None:
    """Ageing: used ten times, but never again, it does not stay for ever."""
    cache = make_cache(exact=4, policy=Lfu())
    keep(cache, prompt(1, 2))
    for _ in range(10):
        load(cache, prompt(1, 2))
    for number in range(10, 60):
        keep(cache, prompt(number, number))
    assert levels(cache, prompt(1, 2)) == []


def test_what_was_dear_to_compute_stays() -> None:
    """Cost-aware: of two prompts used alike, the one that is computed sooner leaves."""
    cache = make_cache(exact=4, policy=CostAware())
    for numbers, seconds in (((1, 2), 0.1), ((3, 4), 0.001), ((5, 6), 0.01)):
        tokens = prompt(*numbers)
        cache.keep(scope(), tokens, cutter(tokens), prompt_tokens=9, seconds_per_token=seconds)
    assert levels(cache, prompt(1, 2)) == [EXACT] * 2
    assert levels(cache, prompt(3, 4)) == []


def test_falls_to_the_compact_shelf_then_leaves() -> None:
    """What leaves the exact shelf is packed; what was computed behind it is packed at once."""
    cache = make_cache(exact=2, compact=3)
    keep(cache, prompt(1, 2))
    keep(cache, prompt(3))
    assert levels(cache, prompt(1, 2)) == [EXACT, COMPACT]
    assert [block.exact for block in load(cache, prompt(1, 2))] == [True, False]
    keep(cache, prompt(1, 2, 4))
    assert levels(cache, prompt(1, 2, 4)) == [EXACT, COMPACT, COMPACT]
    audit(cache)


def test_disk_takes_exact_blocks_only() -> None:
    """What was computed behind packed blocks is not written: a restart brings back exact ones."""
    store = DictStore()
    with make_cache(exact=2, compact=4, disk=9, store=store) as cache:
        keep(cache, prompt(1, 2))
        assert cache.flush(timeout_seconds=10)
        keep(cache, prompt(3))
        keep(cache, prompt(1, 2, 4))
        assert cache.flush(timeout_seconds=10)
        assert levels(cache, prompt(1, 2, 4)) == [EXACT, COMPACT, COMPACT]
    assert len(store.blocks) == 3


def test_from_disk_and_up_again() -> None:
    """What left memory is loaded from disk, and stands in memory again as far as there is room."""
    store = DictStore()
    with make_cache(exact=3, disk=9, store=store) as cache:
        keep(cache, prompt(1, 2, 3))
        assert cache.flush(timeout_seconds=10)
        keep(cache, prompt(4, 5))
        assert levels(cache, prompt(1, 2, 3)) == [EXACT, DISK, DISK]
        assert len(load(cache, prompt(1, 2, 3))) == 3
        assert levels(cache, prompt(1, 2, 3)) == [EXACT] * 3
        assert cache.flush(timeout_seconds=10)
        audit(cache)
        assert cache.figures().shelves[DISK].hit_tokens == 2 * BLOCK


def test_restart_continues_warm() -> None:
    """A new cache takes over what lies on disk, in any order, and nothing that is not its own."""
    store = DictStore()
    with make_cache(disk=20, store=store) as cache:
        keep(cache, prompt(1, 2, 3))
        keep(cache, prompt(1, 2, 4))
        keep(cache, prompt(1, 2), scope("b"))
    del store.blocks[next(name.id for name in store.names() if name.tokens == blocks(4))]
    with make_cache(disk=20, store=store) as cache:
        names = store.names()
        assert cache.adopt(scope(), [*names, *names]) == 3
        assert levels(cache, prompt(1, 2, 3)) == [DISK] * 3
        assert len(load(cache, prompt(1, 2, 3))) == 3
        audit(cache)
        assert keep(cache, prompt(1, 2, 3, 5)) == 1
        assert cache.adopt(scope(), names) == 0


def test_orphans_are_not_taken_over() -> None:
    """A block whose predecessor is gone cannot be reached; one that does not fit is left."""
    store = DictStore()
    with make_cache(disk=20, store=store) as cache:
        keep(cache, prompt(1, 2, 3))
    names = {name.tokens: name for name in store.names()}
    with make_cache(disk=20, store=store) as cache:
        assert cache.adopt(scope(), [names[blocks(1)], names[blocks(3)]]) == 1
    with make_cache(disk=2, store=store) as cache:
        assert cache.adopt(scope(), names.values()) == 2
        audit(cache)


def test_a_damaged_block_truncates_the_lease() -> None:
    """What stands behind a block that cannot be read goes, and is counted once."""
    store = DictStore()
    with make_cache(disk=20, store=store) as cache:
        keep(cache, prompt(1, 2, 3, 4))
        keep(cache, prompt(1, 2, 3, 5))
    with make_cache(disk=20, store=store) as cache:
        cache.adopt(scope(), store.names())
        del store.blocks[next(name.id for name in store.names() if name.tokens == blocks(2))]
        with cache.lease(scope(), prompt(1, 2, 3, 4)) as lease:
            assert lease.matched_tokens == 4 * BLOCK
            assert len(lease.load()) == 1
            assert lease.matched_tokens == BLOCK
        assert cache.flush(timeout_seconds=10)
        assert cache.figures().lost_blocks == 1
        assert levels(cache, prompt(1, 2, 3, 5)) == [EXACT]
        assert len(store.blocks) == 1
        audit(cache)


class Broken(DictStore):
    """A store that fails at everything."""

    def write(self, name: object, block: object) -> bool:
        raise OSError("no disk")

    def read(self, name: object) -> None:
        raise OSError("no disk")

    def remove(self, name: object) -> None:
        raise OSError("no disk")


def test_a_store_that_raises_costs_nothing_but_its_hits() -> None:
    """Errors of the disk are counted, never raised, and memory goes on."""
    with make_cache(exact=9, disk=9, store=Broken()) as cache:
        keep(cache, prompt(1, 2, 3))
        assert cache.flush(timeout_seconds=10)
        assert len(load(cache, prompt(1, 2, 3))) == 3
        assert cache.figures().refused_blocks["unwritten"] == 3
        audit(cache)


def test_leased_blocks_stay_under_pressure() -> None:
    """However much comes, what is leased is there; without room, what comes is not kept."""
    cache = make_cache(exact=3)
    keep(cache, prompt(1, 2, 3))
    with cache.lease(scope(), prompt(1, 2, 3)) as lease:
        assert keep(cache, prompt(4, 5)) == 0
        assert len(lease.load()) == 3
        assert cache.figures().refused_blocks["no_room"] == 2
    assert keep(cache, prompt(4, 5)) == 2
    audit(cache)


def test_a_lost_lease_expires() -> None:
    """A holder that never comes back does not hold memory for ever; late, it gets nothing."""
    clock = HandClock()
    cache = make_cache(exact=2, clock=clock)
    keep(cache, prompt(1, 2))
    lease = cache.lease(scope(), prompt(1, 2))
    clock.seconds += LIMITS.lease_seconds
    assert keep(cache, prompt(3, 4)) == 2
    assert lease.load() == []
    lease.release()
    assert cache.figures().expired_leases == 1
    audit(cache)


def test_a_tenant_pushes_out_its_own() -> None:
    """A full quota makes room among the tenant's own blocks; others do not notice."""
    cache = make_cache(exact=9, tenant=3)
    keep(cache, prompt(1, 2, 3), scope("a", b"t"))
    keep(cache, prompt(1, 2, 3), scope("a", b"u"))
    keep(cache, prompt(4, 5), scope("b", b"u"))
    assert levels(cache, prompt(1, 2, 3), scope("a", b"t")) == [EXACT] * 3
    assert levels(cache, prompt(1, 2, 3), scope("a", b"u")) == [EXACT]
    figures = cache.figures().shelves[EXACT]
    assert set(figures.tenant_bytes.values()) == {3 * BLOCK_BYTES}
    assert figures.evicted_blocks == {"quota": 2}
    audit(cache)


def test_a_pin_keeps_what_comes_later_within_its_bytes() -> None:
    """A prefix pinned before it is computed is let in at first sight, and stays for its time."""
    clock = HandClock()
    cache = make_cache(exact=3, clock=clock, admission=SecondSight())
    keep(cache, prompt(7, 8, 9))
    assert cache.pin(scope(), prompt(1, 2), ttl_seconds=50) == 0
    assert keep(cache, prompt(1, 2, 3)) == 2
    for _ in range(2):
        keep(cache, prompt(4, 5, 6))
    assert levels(cache, prompt(1, 2)) == [EXACT] * 2
    assert cache.figures().pinned_bytes == 2 * BLOCK_BYTES
    clock.seconds += 50
    keep(cache, prompt(4, 5, 6))
    assert levels(cache, prompt(1, 2)) == []
    assert cache.figures().pins == 0
    audit(cache)


def test_pins_hold_no_more_than_they_may() -> None:
    """Past the most pinned bytes, the rest of a prefix is kept like any other."""
    cache = make_cache()
    keep(cache, prompt(1, 2, 3, 4, 5))
    assert cache.pin(scope(), prompt(1, 2, 3, 4, 5), ttl_seconds=50) == 3 * BLOCK
    assert cache.pin(scope(), prompt(1, 2), ttl_seconds=50) == 2 * BLOCK
    cache.unpin(scope(), prompt(1, 2, 3, 4, 5))
    assert cache.figures().pinned_bytes == 2 * BLOCK_BYTES
    cache.unpin(scope(), prompt(1, 2))
    assert cache.figures().pinned_bytes == 0
    audit(cache)


def test_second_sight_pushes_nothing_out_for_what_comes_once() -> None:
    """While there is room all is kept; then only what was seen before gets in."""
    cache = make_cache(exact=3, admission=SecondSight())
    assert keep(cache, prompt(1, 2)) == 2
    assert keep(cache, prompt(3, 4)) == 1
    assert keep(cache, prompt(5, 6)) == 0
    assert cache.figures().refused_blocks["first_sight"] == 3
    assert keep(cache, prompt(5, 6)) == 2


class SlowStore(DictStore):
    """A store that takes a second to read a block."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.clock = clock

    def read(self, name: BlockName) -> Kv | None:
        self.clock.seconds += 1
        return super().read(name)


def test_a_shelf_slower_than_computing_is_not_used() -> None:
    """Once measured, disk is passed over, and tried again after a while."""
    clock = HandClock()
    store = SlowStore(clock)
    with make_cache(exact=2, disk=9, store=store, clock=clock) as cache:
        keep(cache, prompt(1, 2))
        assert cache.flush(timeout_seconds=10)
        keep(cache, prompt(3))
        assert levels(cache, prompt(1, 2)) == [EXACT, DISK]
        assert len(load(cache, prompt(1, 2))) == 2
        keep(cache, prompt(4))
        assert levels(cache, prompt(1, 2)) == [EXACT, DISK]
        assert len(load(cache, prompt(1, 2))) == 1
        clock.seconds += RETRY_SECONDS
        assert len(load(cache, prompt(1, 2))) == 2


def test_nothing_is_kept_when_cutting_fails() -> None:
    """What ``cut`` raises goes through, and the room is free again."""
    cache = make_cache(exact=2)
    with pytest.raises(ZeroDivisionError):
        cache.keep(
            scope(),
            prompt(1, 2),
            lambda *_: [Kv(b"")][1 // 0 :],
            prompt_tokens=9,
            seconds_per_token=1.0,
        )
    with pytest.raises(ValueError, match="returned 1 blocks"):
        cache.keep(
            scope(),
            prompt(1, 2),
            lambda *_: [Kv(b"")],
            prompt_tokens=9,
            seconds_per_token=1.0,
        )
    audit(cache)
    assert keep(cache, prompt(1, 2)) == 2


def test_a_full_queue_is_made_up_for() -> None:
    """Blocks that found the queue full are offered again when their prefix is kept again."""
    store = DictStore()
    with make_cache(disk=20, store=store, queue=2) as cache:
        keep(cache, prompt(*range(12)))
        for _ in range(12):
            assert cache.flush(timeout_seconds=10)
            keep(cache, prompt(*range(12)))
        assert cache.flush(timeout_seconds=10)
        assert len(store.blocks) == 12
        assert cache.figures().refused_blocks["queue"] > 0


def test_bounds_are_checked() -> None:
    """Bounds that make no sense are refused with what they are."""
    with pytest.raises(ValueError, match="max_bytes of shelf exact is -100"):
        make_cache(exact=-1)


def test_a_form_that_fails_loses_a_block_and_nothing_else() -> None:
    """What cannot be packed leaves; what cannot be unpacked is a miss; bytes stay right."""
    cache = make_cache(exact=2, compact=4)
    form = cache._shelves.compact.form  # type: ignore[union-attr]
    keep(cache, prompt(1, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form, "pack", lambda _: 1 // 0)
        keep(cache, prompt(3))
        assert levels(cache, prompt(1, 2)) == [EXACT]
        assert cache.figures().shelves[COMPACT].evicted_blocks == {"lost": 1}
    keep(cache, prompt(4))
    assert levels(cache, prompt(1)) == [COMPACT]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form, "unpack", lambda _: 1 // 0)
        assert load(cache, prompt(1)) == []
    assert levels(cache, prompt(1)) == []
    assert cache.figures().lost_blocks == 1
    audit(cache)


def test_what_is_read_is_lent_though_it_cannot_come_up() -> None:
    """A block from disk that memory cannot take is loaded all the same."""
    with make_cache(exact=2, disk=9) as cache:
        keep(cache, prompt(1, 2))
        assert cache.flush(timeout_seconds=10)
        keep(cache, prompt(3))
        form = cache._shelves.exact.form
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(form), "pack", lambda *_: 1 // 0)
            assert len(load(cache, prompt(1, 2))) == 2
        assert levels(cache, prompt(1, 2)) == [EXACT, DISK]
        audit(cache)


def test_saved_seconds() -> None:
    """A hit saves what computing took, less what loading takes."""
    clock = HandClock()
    with make_cache(exact=2, disk=9, store=SlowStore(clock), clock=clock) as cache:
        tokens = prompt(1, 2)
        cache.keep(scope(), tokens, cutter(tokens), prompt_tokens=9, seconds_per_token=1.0)
        assert cache.flush(timeout_seconds=10)
        keep(cache, prompt(3))
        load(cache, tokens)
        assert cache.figures().saved_seconds == 2 * BLOCK * 1.0 - 1


def test_closed_it_goes_on_in_memory() -> None:
    """After closing, nothing is written any more, and nothing waits."""
    store = DictStore()
    cache = make_cache(disk=9, store=store)
    keep(cache, prompt(1))
    cache.close()
    keep(cache, prompt(2, 3))
    assert cache.flush(timeout_seconds=10)
    assert len(load(cache, prompt(2, 3))) == 2
    assert len(store.blocks) == 1
    cache.close()


def test_a_prompt_does_not_push_out_its_own_beginning() -> None:
    """What a prompt begins with is not evicted to make room for what follows it."""
    cache = make_cache(exact=3)
    keep(cache, prompt(1, 2, 3))
    assert keep(cache, prompt(1, 2, 3, 4)) == 0
    assert levels(cache, prompt(1, 2, 3)) == [EXACT] * 3
    audit(cache)


def test_no_more_falls_than_must() -> None:
    """Room is made for what comes, not for more."""
    cache = make_cache(exact=4, compact=9)
    keep(cache, prompt(1, 2))
    keep(cache, prompt(5, 6))
    keep(cache, prompt(7))
    assert levels(cache, prompt(1, 2)) == [EXACT, COMPACT]
    assert levels(cache, prompt(5, 6)) == [EXACT] * 2
