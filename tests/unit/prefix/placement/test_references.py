"""Where the prompts of stored answers were computed."""

from support.prompts import blocks

from stepwell.core.kv import Tokens
from stepwell.core.names import CacheKey
from stepwell.prefix.placement.references import Reference, References
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.replicas import ReplicaName

HERE = Region()
A = ReplicaName("a")


def key(number: int) -> CacheKey:
    return CacheKey(number.to_bytes(32, "big"))


def test_shared_tokens() -> None:
    """Token by token, in the same region only."""
    reference = Reference(A, HERE, blocks(1, 2, 3))
    assert reference.shared_tokens(HERE, blocks(1, 2, 4)) == 32
    assert reference.shared_tokens(HERE, Tokens(blocks(1, 2, 3)[:-4])) == 47
    assert reference.shared_tokens(HERE, blocks(2)) == 0
    assert reference.shared_tokens(HERE, Tokens(b"")) == 0
    assert reference.shared_tokens(Region(salt="s"), blocks(1)) == 0


def test_bounded_in_bytes() -> None:
    """What was used longest ago leaves; one that is larger than all there is room for, too."""
    kept = References(max_bytes=2 * (64 + 400))
    for number in range(2):
        kept.keep(key(number), Reference(A, HERE, blocks(number)))
    assert kept.find(key(0)) is not None
    kept.keep(key(2), Reference(A, HERE, blocks(2)))
    assert (kept.find(key(1)), len(kept)) == (None, 2)
    kept.keep(key(3), Reference(A, HERE, blocks(*range(40))))
    assert len(kept) == 0


def test_a_newer_one_replaces() -> None:
    """And is not counted twice."""
    kept = References(max_bytes=2 * (64 + 400))
    for _ in range(5):
        kept.keep(key(1), Reference(A, HERE, blocks(1)))
    kept.keep(key(2), Reference(A, HERE, blocks(2)))
    assert len(kept) == 2
    kept.drop(key(1))
    kept.drop(key(1))
    assert len(kept) == 1
