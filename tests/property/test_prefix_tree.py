"""The radix tree against a list of prompts that is searched by brute force."""

from itertools import takewhile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stepwell.prefix.tree import RadixTree, Run, shared_blocks

BLOCK_TOKENS = 2
STEP = 4 * BLOCK_TOKENS

PROMPTS = st.lists(st.integers(0, 2), max_size=12).map(
    lambda numbers: b"".join(number.to_bytes(4, "little") for number in numbers)
)
LONG_PROMPTS = st.tuples(st.integers(0, 150), PROMPTS).map(lambda two: bytes(two[0] * 4) + two[1])


def whole_blocks(tokens: bytes) -> list[bytes]:
    """Return every prefix of whole blocks, which stands for its last block."""
    return [tokens[:end] for end in range(STEP, len(tokens) + 1, STEP)]


class TreeMachine(RuleBasedStateMachine):
    """Adds, finds and cuts; the model is the set of all prefixes that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[bytes, Run[bytes]] = {}
        self.tree: RadixTree[bytes] = RadixTree(BLOCK_TOKENS, self.note)
        self.kept: set[bytes] = set()

    def note(self, run: Run[bytes], payloads: object) -> None:
        """Note where blocks are, as an owner does."""
        self.runs.update(dict.fromkeys(payloads, run))  # type: ignore[call-overload]

    @rule(tokens=PROMPTS | LONG_PROMPTS)
    def add(self, tokens: bytes) -> None:
        """Add all blocks of a prompt."""
        match = self.tree.find(tokens)
        self.tree.extend(match, tokens, whole_blocks(tokens)[match.blocks :])
        self.kept.update(whole_blocks(tokens))

    @rule(tokens=PROMPTS | LONG_PROMPTS)
    def find(self, tokens: bytes) -> None:
        """What is found is the longest prefix that is kept."""
        found = self.tree.payloads(self.tree.find(tokens))
        assert found == list(takewhile(self.kept.__contains__, whole_blocks(tokens)))

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """Cut some tails off."""
        inner = {block[:-STEP] for block in self.kept}
        for block in sorted(self.kept - inner)[: data.draw(st.integers(1, 3))]:
            assert self.tree.cut(self.runs.pop(block)) == block
            self.kept.remove(block)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def look_behind(self, data: st.DataObject) -> None:
        """What is behind a block is what begins with it, each after its parent."""
        block = data.draw(st.sampled_from(sorted(self.kept)))
        run = self.runs[block]
        behind = list(self.tree.behind(run, run.payloads.index(block) + 1))
        assert sorted(behind) == sorted(
            one for one in self.kept if one.startswith(block) and one != block
        )
        assert all(one[:-STEP] in (block, *behind[:at]) for at, one in enumerate(behind))

    @invariant()
    def whole(self) -> None:
        """Counts, edges and parents agree, and no run is empty."""
        assert set(self.tree) == self.kept
        assert len(self.tree) == len(self.kept)
        for block, run in self.runs.items():
            at = run.payloads.index(block)
            assert run.edge[at * STEP : (at + 1) * STEP] == block[-STEP:]
            assert len(run.edge) == len(run.payloads) * STEP
            assert run.parent is not None
            assert run.parent.children[run.edge[:STEP]] is run


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_shared_blocks() -> None:
    """How much two rows have in common, by brute force on all short ones."""
    rows = [
        bytes(int(bit) for bit in f"{number:0{size}b}")
        for size in range(1, 7)
        for number in range(2**size)
    ]
    for one in rows:
        for other in rows:
            brute = 0
            while (end := (brute + 1) * 2) <= min(len(one), len(other)):
                if one[:end] != other[:end]:
                    break
                brute += 1
            assert shared_blocks(one, other, 2) == brute
