"""Whether blocks that nobody has asked for before may push others out."""

from threading import Lock
from typing import Protocol

from stepwell.core.kv import TOKEN_BYTES


class Admission(Protocol):
    """Tells which blocks are worth making room for. Safe for many threads."""

    def worthy_blocks(self, scope: bytes, tokens: bytes, block_tokens: int) -> int:
        """Return for how many leading blocks others may be evicted, and remember having seen them.

        The rest is kept only where there is room. Called once for each prompt.
        """
        ...


class FirstSight:
    """Makes room for everything."""

    __slots__ = ()

    def worthy_blocks(self, scope: bytes, tokens: bytes, block_tokens: int) -> int:  # noqa: ARG002  (the port's shape)
        """Return all."""
        return len(tokens) // (TOKEN_BYTES * block_tokens)


class SecondSight:
    """Makes room for prefixes that were seen before: prompts that come once push nothing out.

    Remembers a 64-bit hash for each block, of it and all before it, in two sets of which the older
    one is dropped when the newer one is full: at least the last ``max_blocks / 2`` blocks, in some
    60 bytes each. Two prefixes with one hash are both let in sooner, nothing more. Costs 0.2 us a
    block.
    """

    __slots__ = ("_generation_blocks", "_lock", "_new", "_old")

    def __init__(self, max_blocks: int = 200_000) -> None:
        """Remember no block yet, and never more than ``max_blocks``."""
        self._generation_blocks = max(1, max_blocks // 2)
        self._new: set[int] = set()
        self._old: set[int] = set()
        self._lock = Lock()

    def worthy_blocks(self, scope: bytes, tokens: bytes, block_tokens: int) -> int:
        """Return how many leading blocks were seen before."""
        step = TOKEN_BYTES * block_tokens
        chain, hashes = hash(scope), []
        for start in range(0, len(tokens) - step + 1, step):
            chain = hash((chain, tokens[start : start + step]))
            hashes.append(chain)
        with self._lock:
            seen = self._count(hashes)
            for one in hashes:
                if len(self._new) >= self._generation_blocks:
                    self._old, self._new = self._new, set()
                self._new.add(one)
        return seen

    def _count(self, hashes: list[int]) -> int:
        for number, one in enumerate(hashes):
            if one not in self._new and one not in self._old:
                return number
        return len(hashes)
