"""The shadow of a replica's prefix cache."""

from support.prompts import blocks

from stepwell.core.kv import Tokens
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.sent import SentPrefixes

HERE = Region()


def shadow(max_blocks: int = 100) -> SentPrefixes:
    return SentPrefixes(max_blocks * 16, 16)


def test_whole_blocks_only() -> None:
    """Tokens that fill no block are not held."""
    sent = shadow()
    sent.add(HERE, Tokens(blocks(1, 2, 3)[:-4]))
    assert sent.matched_tokens(HERE, blocks(1, 2, 3)) == 32
    assert sent.tokens == 32


def test_regions_share_nothing() -> None:
    """The same tokens elsewhere are not held."""
    sent = shadow()
    sent.add(Region(salt="a"), blocks(1, 2))
    assert sent.matched_tokens(Region(salt="b"), blocks(1, 2)) == 0
    assert sent.matched_tokens(Region(adapter="a"), blocks(1, 2)) == 0


def test_longest_unused_leaves_first_and_by_its_end() -> None:
    """What was used again stays; the other loses its last blocks."""
    sent = shadow(6)
    sent.add(HERE, blocks(1, 11, 12))
    sent.add(HERE, blocks(1, 21, 22))
    sent.add(HERE, blocks(1, 11, 12))
    sent.add(HERE, blocks(3, 31))
    assert sent.matched_tokens(HERE, blocks(1, 21, 22)) == 2 * 16
    assert sent.matched_tokens(HERE, blocks(1, 11, 12)) == 3 * 16
    assert sent.tokens == 6 * 16


def test_prompt_longer_than_the_room() -> None:
    """Its beginning is held, as far as there is room; all else is gone."""
    sent = shadow(4)
    sent.add(HERE, blocks(9))
    sent.add(HERE, blocks(*range(100, 110)))
    assert sent.matched_tokens(HERE, blocks(*range(100, 110))) == 4 * 16
    assert sent.matched_tokens(HERE, blocks(9)) == 0


def test_cut_inside_a_run_takes_all_that_follows() -> None:
    """Other prompts that go the same way lose what stood behind, too."""
    sent = shadow()
    sent.add(HERE, blocks(1, 2, 3, 4))
    sent.add(HERE, blocks(1, 2, 3, 5))
    sent.add(HERE, blocks(1, 6))
    sent.cut(HERE, blocks(1, 2, 3, 4), 2 * 16 + 5)
    assert sent.matched_tokens(HERE, blocks(1, 2, 3, 5)) == 2 * 16
    assert sent.matched_tokens(HERE, blocks(1, 6)) == 2 * 16
    assert sent.tokens == 3 * 16


def test_cut_of_what_is_not_there_does_nothing() -> None:
    """Neither does one that keeps all."""
    sent = shadow()
    sent.add(HERE, blocks(1, 2))
    sent.cut(HERE, blocks(1, 2, 3), 32)
    sent.cut(HERE, blocks(7), 0)
    sent.cut(Region(salt="x"), blocks(1), 0)
    assert sent.tokens == 32


def test_smaller_room_takes_effect_at_once() -> None:
    """What has no room any more is forgotten, down to nothing."""
    sent = shadow()
    sent.add(HERE, blocks(1, 2, 3))
    sent.resize(20)
    assert (sent.tokens, sent.matched_tokens(HERE, blocks(1, 2, 3))) == (16, 16)
    sent.resize(0)
    assert sent.tokens == 0
    sent.add(HERE, blocks(1, 2, 3))
    assert sent.matched_tokens(HERE, blocks(1, 2, 3)) == 0


def test_as_of_a_moment() -> None:
    """Inside a run, behind it, and across runs; what was evicted and came again is new."""
    sent = shadow(8)
    sent.add(HERE, blocks(1, 2), 1)
    sent.add(HERE, blocks(1, 2, 3), 2)
    sent.add(HERE, blocks(1, 2, 4, 5), 3)
    held = [sent.matched_tokens(HERE, blocks(1, 2, 4, 5), as_of) // 16 for as_of in range(4)]
    assert held == [0, 2, 2, 4]
    assert sent.matched_tokens(HERE, blocks(1, 2, 3), 2) == 48
    sent.add(HERE, blocks(*range(60, 68)), 4)
    sent.add(HERE, blocks(1, 2), 5)
    assert sent.matched_tokens(HERE, blocks(1, 2), 4) == 0
    assert sent.matched_tokens(HERE, blocks(1, 2), 5) == 32
