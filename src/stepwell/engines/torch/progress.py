"""Prompts that are computed just now, so that none computes what another one does."""

import asyncio
from collections.abc import Sequence

from stepwell.core.kv import TOKEN_BYTES, KvScope, Tokens
from stepwell.engines.torch.model import ROW_TOKENS
from stepwell.engines.torch.working_kv import WorkingKv

WORTH_TOKENS = 64
"""Fewer are computed in less time than it takes to wait for them."""


class Progress:
    """How far a sequence has been computed. For one event loop."""

    def __init__(self, scope: KvScope, prompt: Tokens, working: WorkingKv) -> None:
        """Begin with a prompt of which nothing is computed."""
        self.scope = scope
        self.prompt = prompt
        self.working = working
        self._moved = asyncio.Event()
        self._is_over = False

    @property
    def most_tokens(self) -> int:
        """How many tokens of its prompt are, or will be, computed."""
        return self.working.length if self._is_over else len(self.prompt) // TOKEN_BYTES

    def move(self) -> None:
        """Tell those who wait that ``working.length`` has grown."""
        self._moved.set()
        self._moved = asyncio.Event()

    def end(self) -> None:
        """Tell them that it grows no more. May be called twice."""
        self._is_over = True
        self._moved.set()

    async def reached(self, tokens: int) -> int:
        """Wait until so many tokens are computed; return how many of them are.

        Fewer, if it ended before.
        """
        while self.working.length < tokens and not self._is_over:
            await self._moved.wait()
        return min(tokens, self.working.length)


class Running:
    """All sequences that are computed or being kept, in the order they came. For one event loop."""

    def __init__(self) -> None:
        """Begin with none."""
        self._sequences: list[Progress] = []

    def join(self, progress: Progress) -> tuple[Progress, ...]:
        """Let later ones find this one; return those that came before it.

        Only from those may it take anything, so that no two wait for each other.
        """
        earlier = tuple(self._sequences)
        self._sequences.append(progress)
        return earlier

    def remove(self, progress: Progress) -> None:
        """Let go of it."""
        self._sequences.remove(progress)

    def __len__(self) -> int:
        return len(self._sequences)


def best_source(mine: Progress, others: Sequence[Progress]) -> tuple[Progress, int] | None:
    """Return which of ``others`` has, or will have, most of a prompt, and how many tokens.

    ``None`` if none has enough beyond what is there already. Costs microseconds for each.
    """
    found: tuple[Progress, int] | None = None
    worth = mine.working.length + WORTH_TOKENS
    for other in others:
        if other.scope != mine.scope:
            continue
        # A model must compute at least one token to go on.
        usable = min(
            _common_tokens(mine.prompt, other.prompt),
            len(mine.prompt) // TOKEN_BYTES - 1,
            other.most_tokens,
        )
        usable -= usable % ROW_TOKENS
        if usable >= worth:
            found, worth = (other, usable), usable + 1
    return found


def _common_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens two prompts share, by bisection over whole comparisons."""
    low, high = 0, min(len(one), len(other)) // TOKEN_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if (
            one[low * TOKEN_BYTES : middle * TOKEN_BYTES]
            == (other[low * TOKEN_BYTES : middle * TOKEN_BYTES])
        ):
            low = middle
        else:
            high = middle - 1
    return low
