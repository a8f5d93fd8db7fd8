"""For which blocks others may be evicted."""

from itertools import takewhile
from threading import Lock
from typing import Final, Protocol

from stepwell.core.kv import TOKEN_BYTES

MAX_REMEMBERED_BLOCKS: Final = 200_000
"""Some 20 MB. Should exceed what the shelves hold, or what returns is not recognised."""

CROWDED: Final = 0.32
"""Where more of what is missing than this was kept before and had to leave, prompts that come for
the first time should not push anything out. Found on traces: benchmarks/prefix_hit_ratio.py."""

AT_EASE: Final = 0.16
"""Below this they may again."""

_WINDOW_BLOCKS: Final = 8192
"""Over about so many missing blocks the share is taken."""


class Admission(Protocol):
    """Tells which blocks are worth making room for. Safe for many threads."""

    def worthy_blocks(
        self,
        scope: bytes,
        tokens: bytes,
        block_tokens: int,
        held_blocks: int,
    ) -> int:
        """Return for how many leading blocks others may be evicted, and remember having seen them.

        The rest is kept only where there is room. Called once for each prompt that is kept.

        Args:
            scope: The scope's digest.
            tokens: Of whole blocks.
            block_tokens: Tokens a block stands for.
            held_blocks: How many leading blocks are in memory already.
        """
        ...


class FirstSight:
    """Makes room for everything."""

    __slots__ = ()

    def worthy_blocks(
        self,
        scope: bytes,  # noqa: ARG002  (the port's shape)
        tokens: bytes,
        block_tokens: int,
        held_blocks: int,  # noqa: ARG002  (the port's shape)
    ) -> int:
        """Return all."""
        return len(tokens) // (TOKEN_BYTES * block_tokens)


class SecondSight:
    """Makes room for prefixes that were seen before: prompts that come once push nothing out."""

    __slots__ = ("_sightings",)

    def __init__(self, max_blocks: int = MAX_REMEMBERED_BLOCKS) -> None:
        """Remember no more blocks than that."""
        self._sightings = _Sightings(max_blocks)

    def worthy_blocks(
        self,
        scope: bytes,
        tokens: bytes,
        block_tokens: int,
        held_blocks: int,  # noqa: ARG002  (the port's shape)
    ) -> int:
        """Return how many leading blocks were seen before."""
        return _leading(self._sightings.note(scope, tokens, block_tokens), 1)


class Adaptive:
    """Makes room at first sight, and at second sight while the cache is crowded.

    Crowded is when much of what is missing was kept before and had to leave: then what comes once
    costs hits. With room enough, waiting for a second sight would cost them.
    """

    __slots__ = ("_lock", "_missing", "_returned", "_sightings", "crowded")

    def __init__(self, max_blocks: int = MAX_REMEMBERED_BLOCKS) -> None:
        """Remember no more blocks than that."""
        self._sightings = _Sightings(max_blocks)
        self._missing = 0.0
        self._returned = 0.0
        self._lock = Lock()
        self.crowded = False
        """Whether prefixes must have been seen before."""

    def worthy_blocks(
        self,
        scope: bytes,
        tokens: bytes,
        block_tokens: int,
        held_blocks: int,
    ) -> int:
        """Return all, or how many leading blocks were seen before."""
        seen = self._sightings.note(scope, tokens, block_tokens)
        with self._lock:
            # Where a second sight is needed, what was seen once has not been kept.
            needed = 2 if self.crowded else 1
            self._missing += len(seen) - held_blocks
            self._returned += max(0, _leading(seen, needed) - held_blocks)
            if self._missing >= _WINDOW_BLOCKS:
                share = self._returned / self._missing
                self.crowded = share > (AT_EASE if self.crowded else CROWDED)
                self._missing /= 2
                self._returned /= 2
            return _leading(seen, 1) if self.crowded else len(seen)


def _leading(seen: list[int], times: int) -> int:
    """Return how many leading blocks were seen at least so often."""
    return sum(1 for _ in takewhile(lambda one: one >= times, seen))


class _Sightings:
    """How often prefixes were seen lately.

    Counts by a 64-bit hash of each block and all before it, in two generations of which the older
    one is dropped when the newer one is full: at least the last ``max_blocks / 2`` blocks. Two
    prefixes with one hash are let in sooner, nothing more. Costs 0.3 us a block.
    """

    __slots__ = ("_generation_blocks", "_lock", "_new", "_old")

    def __init__(self, max_blocks: int) -> None:
        self._generation_blocks = max(1, max_blocks // 2)
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._lock = Lock()

    def note(self, scope: bytes, tokens: bytes, block_tokens: int) -> list[int]:
        """Return for each block how often it had been seen, and count this time."""
        step = TOKEN_BYTES * block_tokens
        chain, seen = hash(scope), []
        with self._lock:
            for start in range(0, len(tokens) - step + 1, step):
                chain = hash((chain, tokens[start : start + step]))
                before = self._new.get(chain)
                if before is None:
                    before = self._old.get(chain, 0)
                    if len(self._new) >= self._generation_blocks:
                        self._old, self._new = self._new, {}
                self._new[chain] = before + 1
                seen.append(before)
        return seen
