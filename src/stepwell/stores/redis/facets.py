"""What an invalidation may mean an entry by, in a few bytes in front of its record.

A sweep looks at these, and not at the answers behind them. Texts stand there as digests of eight
bytes: two that share one (1 in 2**64) would be invalidated together.

    3 bytes  magic ``SWF``
    1 byte   version of the facets
    2 bytes  version of the record
    8 bytes  position of the feed when the upstream was asked
    8 bytes  fresh before, seconds since the Unix epoch
    16 bytes namespace
    8 bytes  model
    8 bytes  request class
    1 byte   1 if other words may find it
    1 byte   number of tags
    8 bytes  each tag

`VERSION` is raised with every change of this form, but for the first six bytes, which stay as they
are. Gateways of two versions may share a Redis: what one cannot read is a miss to it, and left
alone. An older one does not write over what a newer one wrote, so one question asked through both
does not go back and forth; a newer one writes over what is older. Facets that both can read let
either remove what an invalidation means, whatever the record behind them is like.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.core.entry import Entry
from stepwell.core.errors import CorruptEntry, OtherVersion
from stepwell.core.names import CacheKey, Namespace, Position
from stepwell.stores import record
from stepwell.stores.named import DIGEST_BYTES, Named, digest

MAGIC = b"SWF"
VERSION = 1

_VERSIONS = struct.Struct("<3sBH")
_FIXED = struct.Struct("<3sBHQd16s8s8sBB")
_MAX_TAGS = 255

IDENTITY_BYTES = _VERSIONS.size + 16
"""How far a value tells one entry from another under its key: position and expiry are in it."""

MAX_TAGS = 48
"""Of a request 16, of the model server's reply 32."""

MAX_BYTES = _FIXED.size + MAX_TAGS * DIGEST_BYTES
"""Of all but entries with more tags than anybody can give."""


@dataclass(frozen=True, slots=True)
class Facets:
    """Of one entry."""

    as_of: Position
    expires_at: float
    namespace: Namespace
    model: bytes
    request_class: bytes
    tags: tuple[bytes, ...]
    is_phrased: bool


def facets_of(entry: Entry) -> Facets:
    """Return the facets of ``entry``. Costs 2 us, and 1 us more for each tag."""
    return Facets(
        as_of=entry.as_of,
        expires_at=entry.expires_at,
        namespace=entry.namespace,
        model=digest(entry.model),
        request_class=digest(entry.request_class),
        tags=tuple(map(digest, entry.tags[:_MAX_TAGS])),
        is_phrased=entry.phrasing is not None,
    )


def write_facets(facets: Facets) -> bytes:
    """Return the bytes that stand before a record."""
    fixed = _FIXED.pack(
        MAGIC,
        VERSION,
        record.VERSION,
        facets.as_of,
        facets.expires_at,
        facets.namespace,
        facets.model,
        facets.request_class,
        facets.is_phrased,
        len(facets.tags),
    )
    return fixed + b"".join(facets.tags)


def read_facets(value: bytes) -> tuple[Facets, int]:
    """Return the facets that ``value`` begins with, and where its record begins.

    Raises:
        CorruptEntry: None of ours.
        OtherVersion: Written by another version of this package.
    """
    _check(value)
    as_of, expires_at, namespace, model, request_class, is_phrased, count = _FIXED.unpack_from(
        value
    )[3:]
    end = _FIXED.size + count * DIGEST_BYTES
    if len(value) < end:
        raise CorruptEntry("a value ends within its facets")
    tags = tuple(value[at : at + DIGEST_BYTES] for at in range(_FIXED.size, end, DIGEST_BYTES))
    facets = Facets(
        Position(as_of),
        expires_at,
        Namespace(namespace),
        model,
        request_class,
        tags,
        bool(is_phrased),
    )
    return facets, end


def _check(value: bytes) -> None:
    if not value.startswith(MAGIC) or len(value) < _VERSIONS.size:
        raise CorruptEntry("a value does not begin as facets do")
    _, version, _ = _VERSIONS.unpack_from(value)
    if version != VERSION:
        raise OtherVersion(f"facets of version {version}; this code reads version {VERSION}")
    if len(value) < _FIXED.size:
        raise CorruptEntry(f"a value of {len(value)} bytes is shorter than its facets")


Shape = tuple[bool, bool, bool, bool, bool]
"""Which of them it names."""


def shape_of(named: Named) -> Shape:
    """Return which are named."""
    key, namespace, model, request_class, tag = (part is not None for part in named)
    return key, namespace, model, request_class, tag


def names_of(key: CacheKey, facets: Facets, shape: Shape) -> Iterator[Named]:
    """Yield what selectors of ``shape`` name that mean this entry: one, or one for each tag."""
    by_key, by_namespace, by_model, by_class, by_tag = shape
    for tag in facets.tags if by_tag else (None,):
        yield (
            key if by_key else None,
            facets.namespace if by_namespace else None,
            facets.model if by_model else None,
            facets.request_class if by_class else None,
            tag,
        )
