"""How an entry is written down: a header that tells damage from data, then msgpack.

    4 bytes  magic ``SWEL``
    2 bytes  version, little-endian
    4 bytes  CRC-32 of everything that follows, little-endian
    n bytes  msgpack array, fields in the order of `_Record`

CRC-32 because it finds every error burst of up to 32 bits, so any flipped byte, at any length,
and costs a fraction of a cryptographic digest. It guards against failing disks and torn writes,
not against people: whoever can write the file could write a matching digest as well.

A change of this format changes `VERSION`. Records of the version before are read as well, so that
an upgrade does not begin with an empty cache; where that is given up, the name of every file on
disk that holds records changes, too. Where two versions of the package share a store, what one
cannot read is not there for it.
"""

import struct
import zlib
from typing import Annotated

import msgspec

from stepwell.core.entry import Answer, Entry, Phrasing, SourceValue, Usage
from stepwell.core.errors import CorruptEntry, OtherVersion
from stepwell.core.names import CacheKey, Endpoint, Form, Namespace, Partition, Position

MAGIC = b"SWEL"
VERSION = 3

_BEGINS_VERSION_2 = MAGIC + b"\2\0"
_HEADER = struct.Struct("<4sHI")


_Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class _Record2(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    key: _Digest
    namespace: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    endpoint: Endpoint
    model: str
    request_class: str
    form: Form
    body: bytes
    created_at: float
    expires_at: float
    keep_until: float
    as_of: int
    prompt_tokens: int
    completion_tokens: int
    upstream_seconds: float
    sources: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    phrasing: tuple[_Digest, str, float | None] | None


class _Record(_Record2, array_like=True, forbid_unknown_fields=True, gc=False):
    cached_tokens: Annotated[int, msgspec.Meta(ge=0)] | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)
_decoder_2 = msgspec.msgpack.Decoder(_Record2)


def seal(payload: bytes, version: int) -> bytes:
    """Return ``payload`` behind a header by which `unseal` tells damage, and other versions."""
    return _HEADER.pack(MAGIC, version, zlib.crc32(payload)) + payload


def unseal(record: bytes, version: int) -> memoryview:
    """Return what was sealed in this version, without a copy.

    Raises:
        CorruptEntry: Not a record, damaged, or cut short.
        OtherVersion: Of another version.
    """
    if len(record) < _HEADER.size:
        raise CorruptEntry(f"a record of {len(record)} bytes is shorter than its header")
    magic, written_in, checksum = _HEADER.unpack_from(record)
    payload = memoryview(record)[_HEADER.size :]
    if magic != MAGIC:
        raise CorruptEntry("not a record: it does not start with the magic bytes")
    if written_in != version:
        raise OtherVersion(f"record version {written_in}; this code reads version {version}")
    if zlib.crc32(payload) != checksum:
        raise CorruptEntry("a record does not match its checksum")
    return payload


def encode(entry: Entry) -> bytes:
    """Return ``entry`` as bytes. Raises `ValueError` for text that is not valid Unicode."""
    return seal(
        _encoder.encode(
            _Record(
                key=entry.key,
                namespace=entry.namespace,
                endpoint=entry.endpoint,
                model=entry.model,
                request_class=entry.request_class,
                form=entry.answer.form,
                body=entry.answer.body,
                created_at=entry.created_at,
                expires_at=entry.expires_at,
                keep_until=entry.keep_until,
                as_of=entry.as_of,
                prompt_tokens=entry.usage.prompt_tokens,
                completion_tokens=entry.usage.completion_tokens,
                upstream_seconds=entry.upstream_seconds,
                sources=tuple((source.name, source.value) for source in entry.sources),
                tags=entry.tags,
                phrasing=_written(entry.phrasing),
                cached_tokens=entry.usage.cached_tokens,
            )
        ),
        VERSION,
    )


def decode(record: bytes) -> Entry:
    """Return the entry that `encode` wrote.

    Raises:
        CorruptEntry: Not a record, damaged, or cut short.
        OtherVersion: Of another version.
    """
    try:
        fields = _read_fields(record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptEntry(f"a record is whole but not an entry: {error}") from error
    return Entry(
        key=CacheKey(fields.key),
        namespace=Namespace(fields.namespace),
        endpoint=fields.endpoint,
        model=fields.model,
        request_class=fields.request_class,
        answer=Answer(fields.form, fields.body),
        created_at=fields.created_at,
        expires_at=fields.expires_at,
        keep_until=fields.keep_until,
        as_of=Position(fields.as_of),
        usage=_usage(fields),
        upstream_seconds=fields.upstream_seconds,
        sources=tuple(SourceValue(name, value) for name, value in fields.sources),
        tags=fields.tags,
        phrasing=_read(fields.phrasing),
    )


def _read_fields(record: bytes) -> _Record2:
    # Two decoders, since a flipped bit may make one version of the other: then the number of
    # fields is wrong.
    if record.startswith(_BEGINS_VERSION_2):
        return _decoder_2.decode(unseal(record, 2))
    return _decoder.decode(unseal(record, VERSION))


def _usage(fields: _Record2) -> Usage:
    cached_tokens = fields.cached_tokens if isinstance(fields, _Record) else None
    return Usage(fields.prompt_tokens, fields.completion_tokens, cached_tokens)


_Written = tuple[bytes, str, float | None] | None


def _written(phrasing: Phrasing | None) -> _Written:
    if phrasing is None:
        return None
    return phrasing.partition, phrasing.text, phrasing.temperature


def _read(written: _Written) -> Phrasing | None:
    if written is None:
        return None
    partition, text, temperature = written
    return Phrasing(Partition(partition), text, temperature)
