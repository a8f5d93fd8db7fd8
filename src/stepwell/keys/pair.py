"""The name of a pair of questions, by which a judgement about them is found again."""

import hashlib

from stepwell.core.names import PairId, Partition
from stepwell.keys.parts import join_parts

PAIR_BYTES = 16


def pair_of(partition: Partition, one: str, other: str) -> PairId:
    """Return the name of two texts in ``partition``; the same in either order.

    A digest: whoever reads the judgements learns no text.
    """
    texts = sorted((one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")))
    parts = join_parts((b"stepwell/pair/1", partition, *texts))
    return PairId(hashlib.sha256(parts).digest()[:PAIR_BYTES])
