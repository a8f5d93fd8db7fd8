"""The default: three plans compete on a sample of the traffic, and the best one decides.

No fixed plan is good everywhere. Recency wins where requests come in bursts and the hot set
moves; frequency wins where the hot set stays, or where a scan or a loop over more than fits would
flush everything. So each plan runs a small shadow cache, keys only, on a sample of all keys; the
plan whose shadow had the most hits lately chooses the victims of the real cache.
"""

from collections import deque
from typing import Final

from stepwell.core.names import CacheKey
from stepwell.stores.eviction.segments import Plan, Segments
from stepwell.stores.eviction.sketch import MAX_COUNT, FrequencySketch

PLANS: Final = (
    Plan(window_share=1.0, enough=0),
    Plan(window_share=0.1, enough=1),
    Plan(window_share=0.01, enough=MAX_COUNT),
)
"""Recency: the whole cache is one LRU. Return: what is asked for twice, stays. Frequency: what is
asked for clearly more often than what it displaces, stays. The first decides until a trial."""

SHADOW_ENTRIES: Final = 512
"""Entries a shadow cache holds at most; a larger cache is sampled, by key."""

PENDING_HITS: Final = 128
"""Hits kept until the next put. Older ones are dropped: with more hits than this between two
puts, the latest are sample enough, and memory and the work of one put stay bounded."""

_MEMORY: Final = 20
"""Sampled requests per shadow entry after which all scores are halved."""

_MIN_MEMORY: Final = 1_000
"""The same for tiny caches, in requests."""


class _Contender:
    """A plan, the shadow cache it runs, and the hits it had lately."""

    __slots__ = ("hits", "plan", "shadow")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shadow = Segments()
        self.hits = 0

    def request(self, key: CacheKey, capacity: int, sketch: FrequencySketch) -> None:
        """Play one request for ``key`` in a shadow cache of ``capacity`` entries."""
        shadow = self.shadow
        if shadow.touch(key):
            self.hits += 1
            return
        while len(shadow) >= capacity:
            shadow.evict(self.plan, sketch)
        shadow.add(key)


class Adaptive:
    """Evicts as the plan does that would have had the most hits lately.

    `on_hit` only queues the key; the work is done at the next put, some microseconds for each hit
    since the last. Everything is O(1) amortised. Beside the keys held it remembers `PENDING_HITS`
    keys, `SHADOW_ENTRIES` keys for each plan, and 32 to 64 bytes of counters for each entry.

    Shares and shadows count entries, not bytes. How many entries fit is learned: it is what is
    held when the store asks for a victim.
    """

    __slots__ = (
        "_best",
        "_capacity",
        "_contenders",
        "_pending",
        "_requests",
        "_sample_mask",
        "_segments",
        "_sketch",
        "_trial_capacity",
        "on_hit",
    )

    def __init__(self) -> None:
        self._segments = Segments()
        self._sketch = FrequencySketch()
        self._contenders = tuple(_Contender(plan) for plan in PLANS)
        self._best = self._contenders[0]
        self._capacity = 0
        """Entries that fit; 0 until the first victim."""
        self._trial_capacity = 0
        """The same when the trial started."""
        self._sample_mask = 0
        self._requests = 0
        """Sampled requests since the scores were last halved, and half of those before."""
        self._pending: deque[CacheKey] = deque(maxlen=PENDING_HITS)
        self.on_hit = self._pending.append
        """Note that a key was read: the hot path is one C call."""

    def on_put(self, key: CacheKey, size_bytes: int) -> None:  # noqa: ARG002  (the port's shape)
        """Note that ``key`` came in, or was replaced; either counts as a use."""
        self._replay_hits()
        self._request(key)
        if not self._segments.touch(key):
            self._segments.add(key)
            self._sketch.reserve(len(self._segments))

    def on_delete(self, key: CacheKey) -> None:
        """Forget ``key``, in the shadows too: no plan may score with an entry that is gone."""
        self._replay_hits()
        self._segments.discard(key)
        if self._is_sampled(key):
            for contender in self._contenders:
                contender.shadow.discard(key)

    def victim(self) -> CacheKey:
        """Return the key the best plan gives up, and forget it.

        Raises:
            LookupError: No key is held.
        """
        self._replay_hits()
        entries = len(self._segments)
        if entries:
            self._learn_capacity(entries)
        for contender in self._contenders:
            if contender.hits > self._best.hits:
                self._best = contender
        return self._segments.evict(self._best.plan, self._sketch)

    def _replay_hits(self) -> None:
        pending = self._pending
        while pending:
            key = pending.popleft()
            self._request(key)
            self._segments.touch(key)

    def _request(self, key: CacheKey) -> None:
        self._sketch.add(key)
        if not self._capacity or not self._is_sampled(key):
            return
        capacity = self._shadow_capacity()
        for contender in self._contenders:
            contender.request(key, capacity, self._sketch)
        self._requests += 1
        if self._requests >= max(_MEMORY * capacity, _MIN_MEMORY):
            self._requests //= 2
            for contender in self._contenders:
                contender.hits //= 2

    def _shadow_capacity(self) -> int:
        return max(2, self._capacity // (self._sample_mask + 1))

    def _learn_capacity(self, entries: int) -> None:
        self._capacity = entries
        if not self._trial_capacity <= 2 * entries <= 4 * self._trial_capacity:
            self._start_trial()

    def _start_trial(self) -> None:
        """Fit the sample to the capacity; every shadow starts with what is really held. O(n)."""
        self._trial_capacity = self._capacity
        self._sample_mask = (1 << ((self._capacity - 1) // SHADOW_ENTRIES).bit_length()) - 1
        sample = [key for key in self._segments if self._is_sampled(key)]
        for contender in self._contenders:
            contender.shadow = Segments()
            for key in sample:
                contender.shadow.add(key)

    def _is_sampled(self, key: CacheKey) -> bool:
        return not int.from_bytes(key[8:12], "little") & self._sample_mask
