"""The radix tree: what is found, what is split, and odd input."""

from array import array

import pytest

from stepwell.prefix.tree import MAX_RUN_BLOCKS, RadixTree, Run

BLOCK = 4


def ids(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


def blocks(*numbers: int) -> bytes:
    """Return one block for each number, all its tokens being that number."""
    return ids(*(number for number in numbers for _ in range(BLOCK)))


def add(tree: RadixTree[str], tokens: bytes, name: str) -> None:
    """Keep all whole blocks of ``tokens``, the new ones under ``name`` and their number."""
    match = tree.find(tokens)
    whole = len(tokens) // (4 * BLOCK)
    tree.extend(match, tokens, [f"{name}{n}" for n in range(match.blocks, whole)])


def found(tree: RadixTree[str], tokens: bytes) -> list[str]:
    return tree.payloads(tree.find(tokens))


def test_empty() -> None:
    """Nothing is found in an empty tree, and nothing of no tokens."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    assert found(tree, b"") == []
    assert found(tree, blocks(1, 2)) == []
    add(tree, b"", "a")
    add(tree, blocks(1), "a")
    assert found(tree, b"") == []
    assert len(tree) == 1


def test_longest_prefix_of_whole_blocks() -> None:
    """Tokens past the last whole block neither count nor matter."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    add(tree, blocks(1, 2, 3) + ids(4, 4), "a")
    assert found(tree, blocks(1, 2, 3, 4)) == ["a0", "a1", "a2"]
    assert found(tree, blocks(1, 2) + ids(3, 3, 3)) == ["a0", "a1"]
    assert found(tree, blocks(1, 2) + ids(3, 3, 3, 4)) == ["a0", "a1"]


def test_reading_splits_nothing_and_writing_does() -> None:
    """A split keeps the tail's object, and tells which run the head's payloads are in."""
    runs: dict[str, Run[str]] = {}

    def note(run: Run[str], payloads: object) -> None:
        runs.update(dict.fromkeys(payloads, run))  # type: ignore[call-overload]

    tree: RadixTree[str] = RadixTree(BLOCK, note)
    add(tree, blocks(1, 2, 3), "a")
    whole = runs["a0"]
    assert found(tree, blocks(1, 2, 9)) == ["a0", "a1"]
    assert runs["a0"] is runs["a2"] is whole
    add(tree, blocks(1, 2, 9), "b")
    assert runs["a2"] is whole
    assert runs["a0"] is runs["a1"] is not whole
    assert whole.parent is runs["a1"]
    assert found(tree, blocks(1, 2, 3)) == ["a0", "a1", "a2"]
    assert found(tree, blocks(1, 2, 9)) == ["a0", "a1", "b2"]


def test_first_token_differs() -> None:
    """What differs in the first token shares nothing."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    add(tree, ids(7, 1, 1, 1) + blocks(2, 3), "a")
    assert found(tree, ids(8, 1, 1, 1) + blocks(2, 3)) == []


def test_very_long_prompt() -> None:
    """A prompt of 32k tokens is found whole, and up to any block in which another differs."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    many = 32_768 // BLOCK
    tokens = blocks(*range(many))
    add(tree, tokens, "a")
    assert len(tree) == tree.find(tokens).blocks == many
    for at in (0, 1, MAX_RUN_BLOCKS - 1, MAX_RUN_BLOCKS, MAX_RUN_BLOCKS + 1, 5_000, many - 1):
        other = bytearray(tokens)
        other[(at * BLOCK + BLOCK - 1) * 4] ^= 1
        assert tree.find(bytes(other)).blocks == at


def test_thousands_of_short_ones() -> None:
    """Each of ten thousand prompts of one block is found, and can be cut off again."""
    runs: dict[str, Run[str]] = {}
    tree: RadixTree[str] = RadixTree(BLOCK, lambda run, new: runs.update(dict.fromkeys(new, run)))
    prompts = [ids(n, 0, 0, 0) for n in range(10_000)]
    for n, prompt in enumerate(prompts):
        add(tree, prompt, f"{n}-")
    assert all(found(tree, prompt) == [f"{n}-0"] for n, prompt in enumerate(prompts))
    for n in range(10_000):
        assert tree.cut(runs[f"{n}-0"]) == f"{n}-0"
    assert len(tree) == 0
    assert list(tree) == []


def test_odd_bytes() -> None:
    """Bytes that are no whole tokens are refused."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    for size in (1, 2, 3, 4 * BLOCK + 1):
        with pytest.raises(ValueError, match="each token takes 4"):
            tree.find(bytes(size))


def test_blocks_have_tokens() -> None:
    """A block of no tokens is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        RadixTree(0)


def test_extending_wrongly() -> None:
    """More payloads than tokens, or a place that has been overtaken, change nothing."""
    tree: RadixTree[str] = RadixTree(BLOCK)
    empty = tree.find(blocks(1))
    with pytest.raises(ValueError, match="are left"):
        tree.extend(empty, blocks(1) + ids(2), ["a0", "a1"])
    tree.extend(empty, blocks(1, 2), ["a0", "a1"])
    with pytest.raises(ValueError, match="already there"):
        tree.extend(empty, blocks(1), ["b0"])
    with pytest.raises(ValueError, match="already there"):
        tree.extend(tree.find(blocks(1, 9)), blocks(1, 2), ["b1"])
    assert list(tree) == ["a0", "a1"]


def test_only_the_last_block_is_cut() -> None:
    """A block that others follow stays; the root has none."""
    runs: dict[str, Run[str]] = {}
    tree: RadixTree[str] = RadixTree(BLOCK, lambda run, new: runs.update(dict.fromkeys(new, run)))
    add(tree, blocks(1, 2), "a")
    add(tree, blocks(1, 3), "b")
    with pytest.raises(ValueError, match="nothing follows"):
        tree.cut(runs["a0"])
    assert next(iter(tree.behind(runs["a0"], 0))) == "a0"
    assert set(tree.behind(runs["a0"], 1)) == {"a1", "b1"}
    assert tree.cut(runs["a1"]) == "a1"
    assert found(tree, blocks(1, 2)) == ["a0"]
    assert tree.cut(runs["b1"]) == "b1"
    assert tree.cut(runs["a0"]) == "a0"
    with pytest.raises(ValueError, match="nothing follows"):
        tree.cut(tree.find(b"").run)
