"""Joining parts so that nothing collides by concatenation."""

from collections.abc import Iterable


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Return the parts joined, each behind its length as 8 bytes, big-endian.

    Injective for a fixed number of parts, and for any number: a reader could take it apart
    again, so no two different sequences give the same bytes.
    """
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])
