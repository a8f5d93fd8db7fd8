"""What a replica probably holds because it was sent there: a shadow of its prefix cache."""

from bisect import bisect_right
from collections import OrderedDict

from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.prefix.placement.region import Region
from stepwell.prefix.tree import RadixTree, Run

_Tree = RadixTree[int]
"""A block's payload is the moment it came."""

_Run = Run[int]


class SentPrefixes:
    """Prefixes by the order in which they were last used, bounded in tokens.

    Model servers evict the blocks that were used longest ago, ends of prompts before beginnings.
    So does this, run by run of the tree and not block by block: a use counts for a whole path, its
    end first, so that nothing follows what is oldest.

    Costs 2 us a thousand tokens to match, 10 us to add and 30 us where others must leave for it;
    some 5 bytes a token and 500 a run. One event loop; not thread-safe.
    """

    def __init__(self, max_tokens: int, block_tokens: int) -> None:
        """Start empty.

        Args:
            max_tokens: What the replica has room for.
            block_tokens: The tokens of one of its blocks.
        """
        self._max_tokens = max_tokens
        self._block_tokens = block_tokens
        self._trees: dict[Region, _Tree] = {}
        self._used: OrderedDict[_Run, Region] = OrderedDict()
        self._tokens = 0

    @property
    def tokens(self) -> int:
        """How many tokens are held."""
        return self._tokens

    @property
    def max_tokens(self) -> int:
        """How many there is room for."""
        return self._max_tokens

    @property
    def is_full(self) -> bool:
        """Whether one more block would push another out."""
        return self._tokens + self._block_tokens > self._max_tokens

    def matched_tokens(self, region: Region, tokens: Tokens, as_of: int | None = None) -> int:
        """Return how many tokens, from the first on, are held; whole blocks only.

        Args:
            region: Where they are met.
            tokens: From a prompt's first on.
            as_of: What came after this moment does not count.
        """
        tree = self._trees.get(region)
        if tree is None:
            return 0
        match = tree.find(tokens)
        late = 0 if as_of is None else _later_blocks(match.run, match.inside, as_of)
        return (match.blocks - late) * self._block_tokens

    def add(self, region: Region, tokens: Tokens, moment: int = 0) -> None:
        """Take a prompt that was sent; its last tokens, if they fill no block, are left out.

        ``moment`` says when: it never falls from one call to the next.
        """
        blocks = min(len(tokens) // TOKEN_BYTES, self._max_tokens) // self._block_tokens
        if not blocks:
            return
        tree = self._trees.setdefault(region, _Tree(self._block_tokens))
        match = tree.find(tokens)
        if (new := blocks - match.blocks) > 0:
            tree.extend(match, tokens, [moment] * new)
            self._tokens += new * self._block_tokens
            match = tree.find(tokens)
        self._use(match.run, region)
        self.resize(self._max_tokens)

    def cut(self, region: Region, tokens: Tokens, keep_tokens: int) -> None:
        """Forget what stands on the way of ``tokens`` behind the first ``keep_tokens``."""
        tree = self._trees.get(region)
        keep = keep_tokens // self._block_tokens
        if tree is None or tree.find(tokens).blocks <= keep:
            return
        step = self._block_tokens * TOKEN_BYTES
        match = tree.find(tokens[: keep * step])
        if match.inside == len(match.run.payloads):
            self._forget(tree, match.run.children[tokens[keep * step : (keep + 1) * step]], 0)
        else:
            self._forget(tree, match.run, match.inside)

    def resize(self, max_tokens: int) -> None:
        """Change how much there is room for; forget what has none, the oldest first."""
        self._max_tokens = max_tokens
        while self._tokens > max_tokens:
            oldest, region = next(iter(self._used.items()))
            excess = -(-(self._tokens - max_tokens) // self._block_tokens)
            self._forget(self._trees[region], oldest, max(0, len(oldest.payloads) - excess))

    def _use(self, run: _Run | None, region: Region) -> None:
        while run is not None and run.parent is not None:
            self._used[run] = region
            self._used.move_to_end(run)
            run = run.parent

    def _forget(self, tree: _Tree, first: _Run, inside: int) -> None:
        """Cut off all that stands behind the first ``inside`` blocks of a run."""
        runs = [first]
        for run in runs:
            runs.extend(run.children.values())
        for run in reversed(runs):
            keep = inside if run is first else 0
            while len(run.payloads) > keep:
                tree.cut(run)
                self._tokens -= self._block_tokens
            if not run.payloads:
                region = self._used.pop(run)
                if not len(tree):
                    del self._trees[region]


def _later_blocks(run: _Run | None, inside: int, as_of: int) -> int:
    """Return how many of the blocks that lead to a place came after a moment.

    No block came before the one that it follows, so they are the last ones.
    """
    late = 0
    while run is not None:
        before = bisect_right(run.payloads, as_of, 0, inside)
        late += inside - before
        if before:
            break
        run = run.parent
        inside = 0 if run is None else len(run.payloads)
    return late
