"""The key of what a program keeps for itself beside the answers."""

import hashlib
from collections.abc import Iterable

from stepwell.core.names import CacheKey, Namespace
from stepwell.keys.parts import join_parts

MEMO_SCHEMA = b"stepwell/memo/1"
"""No request's key begins so: what is kept here answers none."""


def memo_key(namespace: Namespace, purpose: str, parts: Iterable[str]) -> CacheKey:
    """Return the key of what a program keeps under ``parts``.

    Different for every sequence of parts, however they are put together, and for every purpose.
    Lone surrogates count as themselves.

    Args:
        namespace: Whose it is.
        purpose: What it is for.
        parts: Everything it depends on.
    """
    texts = [part.encode("utf-8", "surrogatepass") for part in (purpose, *parts)]
    return CacheKey(hashlib.sha256(join_parts((MEMO_SCHEMA, namespace, *texts))).digest())
