"""What a replica's KV events tell: joined by parents and tokens, whatever comes in between."""

import pytest
from support.prompts import blocks

from stepwell.core.kv import Tokens
from stepwell.core.kv_events import BlockHash, BlocksStored
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.told import ToldBlocks

HERE = Region()


def stored(
    hashes: str, *numbers: int, after: BlockHash | None = None, size: int = 16, **more: object
) -> BlocksStored:
    """Return an event for blocks that are named by the letters of ``hashes``."""
    named = tuple(letter.encode() for letter in hashes)
    tokens = blocks(*numbers, size=size)
    return BlocksStored(named, after, tokens, size, **more)  # type: ignore[arg-type]


def told(*events: BlocksStored, max_tokens: int = 10_000) -> ToldBlocks:
    known = ToldBlocks(max_tokens)
    for event in events:
        known.store(event)
    return known


def test_chain_is_followed() -> None:
    """Over events, up to the first block that is not held."""
    known = told(stored("ab", 1, 2), stored("c", 3, after=b"b"))
    assert known.matched_tokens(HERE, blocks(1, 2, 3, 4)) == 48
    assert known.matched_tokens(HERE, blocks(1, 3)) == 16
    assert known.matched_tokens(HERE, blocks(2)) == 0


@pytest.mark.parametrize("size", [16, 32, 128])
def test_any_block_size(size: int) -> None:
    """Matches end at the replica's blocks, not at ours."""
    known = told(stored("ab", 1, 2, size=size))
    prompt = blocks(1, 2, 3, size=size)
    assert known.matched_tokens(HERE, prompt) == 2 * size
    assert known.matched_tokens(HERE, Tokens(prompt[: (2 * size - 1) * 4])) == size


def test_order_and_repetition_do_not_matter() -> None:
    """A block whose parent is not known yet waits for it; what is told twice is held once."""
    events = [stored("c", 3, after=b"b"), stored("ab", 1, 2), stored("c", 3, after=b"b")]
    known = told(*events, *events)
    assert known.matched_tokens(HERE, blocks(1, 2, 3)) == 48
    assert known.tokens == 48
    assert told(events[0]).matched_tokens(HERE, blocks(3)) == 0


def test_hole_ends_the_match_until_it_is_filled() -> None:
    """A block that is gone hides what stands behind it; it is found again when it comes back."""
    known = told(stored("abc", 1, 2, 3))
    known.remove(b"b", None)
    assert known.matched_tokens(HERE, blocks(1, 2, 3)) == 16
    known.store(stored("b", 2, after=b"a"))
    assert known.matched_tokens(HERE, blocks(1, 2, 3)) == 48
    known.remove(b"x", None)
    assert known.tokens == 48


def test_salt_and_adapter_keep_apart() -> None:
    """The first block says the salt, every block the adapter; an adapter is no salt."""
    salted = stored("ab", 1, 2, extra=(("s",), ()))
    adapted = stored("cd", 1, 2, adapter="s", extra=(("s",), ("s",)))
    known = told(salted, adapted)
    assert known.matched_tokens(Region(salt="s"), blocks(1, 2)) == 32
    assert known.matched_tokens(Region(adapter="s"), blocks(1, 2)) == 32
    for region in (HERE, Region(salt="t"), Region(adapter="s", salt="s")):
        assert known.matched_tokens(region, blocks(1, 2)) == 0


def test_images_are_not_matched_by_their_placeholders() -> None:
    """A block that depends on more than its tokens is never met by tokens alone."""
    known = told(stored("ab", 1, 2, extra=((), (("image", 3),))))
    assert known.matched_tokens(HERE, blocks(1, 2)) == 16
    assert known.way(b"b") is None


def test_way_back() -> None:
    """A block leads back to all tokens before it, where all of them are known."""
    known = told(stored("ab", 1, 2, extra=(("s",), ())), stored("d", 4, after=b"c"))
    way = known.way(b"b")
    assert way is not None
    assert (way.region, way.tokens, way.before_tokens) == (Region(salt="s"), blocks(1, 2), 16)
    assert known.way(b"d") is None
    assert known.way(b"x") is None


def test_lies_in_a_circle() -> None:
    """Blocks that stand before each other lead nowhere."""
    known = told(stored("a", 1, after=b"b"), stored("b", 2, after=b"a"))
    assert known.way(b"a") is None
    assert known.matched_tokens(HERE, blocks(1, 2)) == 0


def test_one_name_for_two_blocks() -> None:
    """The later one counts."""
    known = told(stored("a", 1), stored("a", 2))
    assert known.matched_tokens(HERE, blocks(1)) == 0
    assert known.matched_tokens(HERE, blocks(2)) == 16
    assert known.tokens == 16


def test_two_names_for_one_block() -> None:
    """The later one counts; what follows the earlier is not reached."""
    known = told(stored("ab", 1, 2), stored("c", 1))
    assert known.matched_tokens(HERE, blocks(1, 2)) == 16
    assert (known.tokens, known.holds(b"a")) == (32, False)


@pytest.mark.parametrize(
    "event",
    [
        BlocksStored((b"a",), None, blocks(1, 2), 16),
        BlocksStored((b"a", b"b"), None, blocks(1), 16),
        BlocksStored((b"a",), None, Tokens(blocks(1)[:-1]), 16),
        BlocksStored((b"a",), None, blocks(1), 0),
        BlocksStored((), None, Tokens(b""), -16),
    ],
)
def test_parts_that_do_not_fit(event: BlocksStored) -> None:
    """An event that contradicts itself changes nothing."""
    known = told(stored("z", 1), event)
    assert known.tokens == 16
    assert known.matched_tokens(HERE, blocks(1)) == 16


def test_media() -> None:
    """A block in two media stays until it has left both."""
    known = told(stored("a", 1, medium="GPU"), stored("a", 1, medium="CPU"))
    known.remove(b"a", "GPU")
    assert known.matched_tokens(HERE, blocks(1)) == 16
    known.remove(b"a", "CPU")
    assert known.matched_tokens(HERE, blocks(1)) == 0


def test_bounded() -> None:
    """Beyond the bound, ends of prompts told long ago are forgotten first."""
    known = told(stored("abc", 1, 2, 3), stored("de", 4, 5), max_tokens=4 * 16)
    assert known.tokens == 4 * 16
    assert known.matched_tokens(HERE, blocks(1, 2, 3)) == 32


def test_partial_last_block_does_not_change_the_size() -> None:
    """A server may tell of a block that is not full; full ones are still found."""
    known = told(stored("ab", 1, 2), stored("c", 3, after=b"b", size=7))
    assert known.matched_tokens(HERE, blocks(1, 2, 3)) == 32


def test_an_event_whose_blocks_put_each_other_out() -> None:
    """One block cannot be in two places; whatever is told of it, nothing is raised."""
    tokens = Tokens(b"".join(id_.to_bytes(4, "little") for id_ in (0, 7, 2, 7)))
    known = told(BlocksStored((1, 2, 1, 3), None, tokens, 1))
    assert known.tokens <= 4


def test_places_of_a_block_are_bounded() -> None:
    known = told(*[stored("a", 1, medium=f"medium {number}") for number in range(100)])
    assert known.tokens == 16
    known.remove(b"a", "medium 99")  # beyond the bound: not known to be there
    assert known.tokens == 16


def test_as_of_a_moment() -> None:
    """What is told again is not news; what was removed and is told again is."""
    known = ToldBlocks(10_000)
    known.store(stored("ab", 1, 2), 1)
    known.store(stored("abc", 1, 2, 3), 2)
    assert [known.matched_tokens(HERE, blocks(1, 2, 3), as_of) for as_of in range(3)] == [0, 32, 48]
    known.remove(b"b", None)
    known.store(stored("b", 2, after=b"a"), 3)
    assert known.matched_tokens(HERE, blocks(1, 2, 3), 2) == 16
    assert known.matched_tokens(HERE, blocks(1, 2, 3), 3) == 48
