"""A radix tree over token ids: how much of a prompt is known, block by block.

Tokens are compared as they are, so there is no hash that could be wrong. A comparison of a whole
edge is one ``memcmp``; nothing is copied on the way down, and nothing is split by reading.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from stepwell.core.kv import TOKEN_BYTES

MAX_RUN_BLOCKS: Final = 64
"""Bounds what cutting a block off an edge copies (4 KiB with blocks of 16 tokens). A longer edge
saves only a step on the way down for each 64 blocks."""

Payload = TypeVar("Payload")
"""What the owner of a tree knows of a block."""


class Run(Generic[Payload]):
    """Consecutive blocks, and the edge that leads to them. Changed by its tree only."""

    __slots__ = ("children", "edge", "parent", "payloads")

    def __init__(self, parent: "Run[Payload] | None", edge: bytes, payloads: list[Payload]) -> None:
        self.parent = parent
        """The run before it; ``None``: it is the root, which has no blocks, or was cut off."""
        self.edge = edge
        """The blocks' tokens."""
        self.payloads = payloads
        """One for each block."""
        self.children: dict[bytes, Run[Payload]] = {}
        """What follows the last block, by the tokens of the first block of each."""


class Match(NamedTuple, Generic[Payload]):
    """A place in a tree. Good until the tree changes."""

    blocks: int
    """How many blocks lead to it, from the root on."""
    run: Run[Payload]
    """The deepest run reached."""
    inside: int
    """How many of its blocks were reached."""


def stay_there(run: Run[Payload], payloads: Sequence[Payload]) -> None:
    """Do nothing: for trees whose owner never goes from a payload to its run."""


class RadixTree(Generic[Payload]):
    """Prefixes of token ids, in whole blocks, each with a payload.

    A lookup costs about 1 us and 1 us more for each thousand tokens found. The tree takes 4 bytes a
    token, a pointer a block and some 400 bytes a run. Runs are not joined again when what parted
    them is cut off: at worst, each block is a run of its own.

    Not safe across threads: its owner has a lock.
    """

    __slots__ = ("_block_bytes", "_blocks", "_on_place", "_root", "block_tokens")

    def __init__(
        self,
        block_tokens: int,
        on_place: Callable[[Run[Payload], Sequence[Payload]], None] = stay_there,
    ) -> None:
        """Make an empty tree.

        Args:
            block_tokens: Tokens a block stands for; at least 1.
            on_place: Told which run holds some payloads now: when they are new, and when a run was
                split. Lets an owner note it in the payload, for `cut`.

        Raises:
            ValueError: ``block_tokens`` is below 1.
        """
        if block_tokens < 1:
            raise ValueError(f"block_tokens is {block_tokens}; it must be at least 1")
        self.block_tokens: Final = block_tokens
        self._block_bytes = block_tokens * TOKEN_BYTES
        self._on_place = on_place
        self._root: Run[Payload] = Run(None, b"", [])
        self._blocks = 0

    def __len__(self) -> int:
        """Return how many blocks it holds."""
        return self._blocks

    def find(self, tokens: bytes) -> Match[Payload]:
        """Return the place of the longest prefix of ``tokens`` that is there, in whole blocks.

        Raises:
            ValueError: ``tokens`` is not a whole number of 32-bit integers.
        """
        if len(tokens) % TOKEN_BYTES:
            raise ValueError(f"{len(tokens)} bytes of tokens; each token takes {TOKEN_BYTES}")
        step = self._block_bytes
        run, at = self._root, 0
        while (child := run.children.get(tokens[at : at + step])) is not None:
            if not tokens.startswith(child.edge, at):
                inside = _shared_blocks(child.edge, tokens, at, step)
                return Match(at // step + inside, child, inside)
            run, at = child, at + len(child.edge)
        return Match(at // step, run, len(run.payloads))

    def payloads(self, match: Match[Payload]) -> list[Payload]:
        """Return the payloads on the way to a place, from the root on. A new list."""
        way = [match.run.payloads[: match.inside]]
        run = match.run.parent
        while run is not None:
            way.append(run.payloads)
            run = run.parent
        found: list[Payload] = []
        for payloads in reversed(way):
            found += payloads
        return found

    def extend(self, match: Match[Payload], tokens: bytes, payloads: Sequence[Payload]) -> None:
        """Add blocks at a place, splitting its run if it is inside one.

        Args:
            match: Where they follow: what `find` returned for ``tokens``, the tree unchanged since.
            tokens: All tokens from the first on, those that lead to the place included.
            payloads: One for each new block, in order.

        Raises:
            ValueError: There are fewer tokens than payloads need, or the first block is already
                there.
        """
        if not payloads:
            return
        step, start = self._block_bytes, match.blocks * self._block_bytes
        added = tokens[start : start + len(payloads) * step]
        if len(added) < len(payloads) * step:
            raise ValueError(f"{len(payloads)} blocks of {step} bytes; {len(added)} bytes are left")
        run = match.run
        if self._holds(match, added[:step]):
            raise ValueError("the block is already there; look its place up anew")
        if match.inside < len(run.payloads):
            run = self._split(run, match.inside)
        self._append(run, added, payloads)
        self._blocks += len(payloads)

    def cut(self, run: Run[Payload]) -> Payload:
        """Take the last block off a run that nothing follows, and return its payload.

        Copies the rest of the edge: 0.1 us.

        Raises:
            ValueError: Something follows the run, or it has no block.
        """
        if run.children or not run.payloads:
            raise ValueError("only a block that nothing follows can be cut off")
        payload = run.payloads.pop()
        self._blocks -= 1
        if run.payloads:
            run.edge = run.edge[: -self._block_bytes]
        elif run.parent is not None:
            del run.parent.children[run.edge]
            run.parent = None
        return payload

    def behind(self, run: Run[Payload], inside: int) -> Iterator[Payload]:
        """Yield the payloads behind the first ``inside`` blocks of a run; each after its parent."""
        yield from run.payloads[inside:]
        waiting = list(run.children.values())
        while waiting:
            run = waiting.pop()
            yield from run.payloads
            waiting.extend(run.children.values())

    def __iter__(self) -> Iterator[Payload]:
        """Yield all payloads; each after its parent."""
        return self.behind(self._root, 0)

    def _holds(self, match: Match[Payload], first: bytes) -> bool:
        run, step = match.run, self._block_bytes
        if match.inside < len(run.payloads):
            return run.edge.startswith(first, match.inside * step)
        return first in run.children

    def _split(self, run: Run[Payload], inside: int) -> Run[Payload]:
        """Put a new run before what is behind ``inside`` blocks, and return it.

        The old object keeps the tail, so that whoever knows the tail need not be told.
        """
        step, parent = self._block_bytes, run.parent
        head: Run[Payload] = Run(parent, run.edge[: inside * step], run.payloads[:inside])
        if parent is not None:
            parent.children[run.edge[:step]] = head
        run.parent = head
        run.edge = run.edge[inside * step :]
        run.payloads = run.payloads[inside:]
        head.children[run.edge[:step]] = run
        self._on_place(head, head.payloads)
        return head

    def _append(self, run: Run[Payload], edge: bytes, payloads: Sequence[Payload]) -> None:
        """Add blocks behind the last of a run: to it, as long as nothing else follows."""
        step, taken = self._block_bytes, 0
        if run.payloads and not run.children:
            taken = max(0, min(MAX_RUN_BLOCKS - len(run.payloads), len(payloads)))
            run.edge += edge[: taken * step]
            run.payloads = [*run.payloads, *payloads[:taken]]
            self._on_place(run, payloads[:taken])
        for at in range(taken, len(payloads), MAX_RUN_BLOCKS):
            some = list(payloads[at : at + MAX_RUN_BLOCKS])
            run, parent = Run(run, edge[at * step : (at + len(some)) * step], some), run
            parent.children[run.edge[:step]] = run
            self._on_place(run, some)


def shared_blocks(one: bytes, other: bytes, block_bytes: int) -> int:
    """Return how many whole blocks two rows of tokens have in common from the first on."""
    whole = one[: len(one) - len(one) % block_bytes]
    if other.startswith(whole):
        return len(whole) // block_bytes
    if not other.startswith(whole[:block_bytes]):
        return 0
    return _shared_blocks(whole, other, 0, block_bytes)


def _shared_blocks(edge: bytes, tokens: bytes, at: int, step: int) -> int:
    """Return how many blocks of an edge ``tokens`` share from ``at`` on: not all, but one."""
    same, differ = 1, len(edge) // step
    while differ - same > 1:
        middle = (same + differ) // 2
        if tokens.startswith(edge[same * step : middle * step], at + same * step):
            same = middle
        else:
            differ = middle
    return same
