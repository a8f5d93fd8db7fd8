"""Rendezvous hashing: an order of replicas that everybody finds alone, and that stays put.

Highest random weight (Thaler and Ravishankar, 1998): each replica gets a weight from the key and
its own name. One that leaves hands on only what was its own, one that joins takes about 1/n.
"""

from collections.abc import Iterable
from hashlib import blake2b

from stepwell.prefix.placement.replicas import ReplicaName

_WEIGHT_BYTES = 8


def digest(seed: bytes, tokens: bytes) -> bytes:
    """Return 16 bytes that stand for a beginning of prompts.

    Costs about 1 us per 1 KB. Not for telling tokens apart where it counts: a collision sends two
    prompts the same way, and no more.
    """
    hashed = blake2b(len(seed).to_bytes(8, "little"), digest_size=16, person=b"stepwell place")
    hashed.update(seed)
    hashed.update(tokens)
    return hashed.digest()


def weight(key: bytes, replica: ReplicaName) -> bytes:
    """Return the weight of a replica for a key: the heaviest comes first. Below 1 us."""
    return blake2b(replica.encode(), key=key, digest_size=_WEIGHT_BYTES).digest()


def ranked(key: bytes, replicas: Iterable[ReplicaName]) -> list[ReplicaName]:
    """Return the replicas, those that should have ``key`` first.

    Args:
        key: At most 64 bytes.
        replicas: In any order: it does not count.
    """
    return sorted(replicas, key=lambda replica: (weight(key, replica), replica), reverse=True)
