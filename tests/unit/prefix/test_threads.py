"""`PrefixCache` in the hands of many threads, some of which give up half-way."""

import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from support.kv_shelves import BLOCK, DictStore, Kv, audit, cutter, make_cache, prompt, scope

from stepwell.core.kv import KvScope, Tokens
from stepwell.prefix.admission import Adaptive
from stepwell.prefix.cache import PrefixCache
from stepwell.prefix.leases import Lease
from stepwell.prefix.policies import Lfu
from stepwell.testing.clock import HandClock

THREADS = 8
STEPS = 250


class Cancelled(Exception):
    """The request was cancelled."""


class Worker:
    """Does this and that, as a thread of an engine does."""

    def __init__(self, cache: PrefixCache[Kv], left: SimpleQueue[Lease[Kv]], seed: int) -> None:
        self.cache = cache
        self.left = left
        self.choice = random.Random(seed)
        self.errors: list[BaseException] = []

    def run(self) -> None:
        """Do many things; note what goes wrong."""
        actions = (self.answer, self.answer, self.cancel, self.walk_off, self.clean_up, self.pin)
        try:
            for _ in range(STEPS):
                self.choice.choice(actions)()
        except BaseException as error:  # noqa: BLE001  (the test shows it)
            self.errors.append(error)

    def answer(self) -> None:
        """Load what is kept, check it, keep the rest."""
        tokens, of = self.a_prompt(), self.a_scope()
        with self.cache.lease(of, tokens) as lease:
            self.check(lease.load(), tokens)
            self.cache.keep(of, tokens, cutter(tokens), prompt_tokens=12, seconds_per_token=0.001)

    def cancel(self) -> None:
        """Give up while copying."""
        tokens, of = self.a_prompt(), self.a_scope()

        def cut(start: int, end: int) -> Sequence[Kv]:
            raise Cancelled(start, end)

        with suppress(Cancelled), self.cache.lease(of, tokens):
            self.cache.keep(of, tokens, cut, prompt_tokens=12, seconds_per_token=0.001)

    def walk_off(self) -> None:
        """Borrow, and leave it to another thread to give back."""
        self.left.put(self.cache.lease(self.a_scope(), self.a_prompt()))

    def clean_up(self) -> None:
        """Give back what another thread borrowed, perhaps twice, perhaps while it loads."""
        try:
            lease = self.left.get_nowait()
        except Empty:
            return
        self.check(lease.load(), lease.tokens)
        lease.release()
        lease.release()

    def pin(self) -> None:
        """Pin and unpin."""
        tokens, of = self.a_prompt(), self.a_scope()
        self.cache.pin(of, tokens, ttl_seconds=1)
        self.cache.unpin(of, tokens)

    def check(self, found: Sequence[Kv], tokens: bytes) -> None:
        """What was loaded are the right blocks."""
        for number, block in enumerate(found):
            assert block.path == tokens[: (number + 1) * BLOCK * 4]

    def a_prompt(self) -> Tokens:
        """Return one of some prompts that share much."""
        return prompt(*(self.choice.randrange(2) for _ in range(self.choice.randrange(1, 9))))

    def a_scope(self) -> KvScope:
        """Return one of two scopes."""
        return scope("a", self.choice.choice([b"t", b"u"]))


def test_counts_return_to_zero() -> None:
    """After eight threads are done, all bytes are those of blocks in the tree, nothing is held."""
    store = DictStore()
    clock = HandClock()
    cache = make_cache(
        exact=9,
        compact=9,
        disk=16,
        tenant=12,
        queue=8,
        store=store,
        policy=Lfu(),
        admission=Adaptive(64),
        clock=clock,
    )
    left: SimpleQueue[Lease[Kv]] = SimpleQueue()
    workers = [Worker(cache, left, seed) for seed in range(THREADS)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        audit(cache, idle=False)
        lose_one(store)
    for thread in threads:
        thread.join()
    assert [worker.errors for worker in workers] == [[]] * THREADS
    while not left.empty():
        left.get().release()
    assert cache.flush(timeout_seconds=10)
    audit(cache)
    figures = cache.figures()
    assert figures.leases == figures.pins == figures.pinned_bytes == 0
    assert figures.added_blocks > 100
    assert all(figures.shelves[level].evicted_blocks for level in range(3))
    assert figures.lost_blocks > 0
    assert store.most <= 16
    cache.close()


def lose_one(store: DictStore) -> None:
    """Lose a file."""
    names = list(store.blocks)
    if names:
        store.blocks.pop(names[0], None)
