"""How a KV block is written down.

```text
header    magic, version, lengths, position, scope digest, id of the block before    (fixed)
          tokens, form                                             (variable)
          zeros up to a multiple of 64 bytes, the last 8 of them: XXH3-64 of all before
payload   as the engine gave it
trailer   XXH3-64 of the payload, with the header's checksum as its seed
```

All numbers are little-endian. The checksums are there for torn and decayed files, not against
people: who can write to the folder can forge a block. XXH3 because it takes a twelfth of the time
of CRC-32, which would double what reading a block costs.
"""

import struct
from dataclasses import dataclass

import xxhash

from stepwell.core.kv import SCOPE_DIGEST_BYTES, TOKEN_BYTES, BlockId, Tokens, block_id

VERSION = 1
"""Stands in the folder's name, too: two versions of the package never share a file."""

MAGIC = b"stepwell"

_ID_BYTES = SCOPE_DIGEST_BYTES
_FIXED = struct.Struct(f"<8sHHIIQ{_ID_BYTES}s{_ID_BYTES}s")
_CHECKSUM_BYTES = 8
_ALIGNMENT_BYTES = 64

Buffer = bytes | bytearray | memoryview
"""What bytes are read from. A view must be contiguous."""


class Damaged(Exception):
    """These are not the bytes of the block they should be."""


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What a block is, besides its keys and values."""

    scope_digest: bytes
    """Of `stepwell.core.kv.KvScope.digest`."""
    before: bytes
    """Id of the block before; for a first one the scope's digest, as in `core.kv.block_id`."""
    tokens: Tokens
    """Its own tokens. Compare them with those you look for: an id is only a hash."""
    position: int
    """How many tokens stand before it. Of blocks used at the same time, deeper ones leave first."""
    form: str
    """Shape and dtype of the payload, in the words of the engine; at most 65,535 bytes."""

    @property
    def id(self) -> BlockId:
        """The block's name."""
        return block_id(self.before, self.tokens)


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block and its keys and values."""

    header: BlockHeader
    payload: memoryview
    """Bytes, one dimension. `numpy.frombuffer` and `torch.frombuffer` take it without a copy."""


def header_bytes(header: BlockHeader, payload_bytes: int) -> bytes:
    """Return the beginning of a file.

    Raises:
        ValueError: A part of the header is longer than the format can say.
    """
    form = header.form.encode()
    if len(header.scope_digest) != _ID_BYTES or len(header.before) != _ID_BYTES:
        raise ValueError(f"a KV block whose scope or predecessor is not named by {_ID_BYTES} bytes")
    try:
        fixed = _FIXED.pack(
            MAGIC,
            VERSION,
            len(form),
            len(header.tokens),
            header.position,
            payload_bytes,
            header.scope_digest,
            header.before,
        )
    except struct.error as error:
        raise ValueError(f"a KV block that the file format has no room for: {error}") from error
    content = fixed + header.tokens + form
    padded = content.ljust(_header_length(len(form), len(header.tokens)) - _CHECKSUM_BYTES, b"\0")
    return padded + xxhash.xxh3_64_digest(padded)


def trailer_bytes(header: Buffer, payload: Buffer) -> bytes:
    """Return the end of the file that begins with ``header``."""
    return xxhash.xxh3_64_digest(payload, seed=_seed(header))


def header_length(beginning: Buffer) -> int:
    """Return how many bytes of a file hold its header, as its fixed part says.

    Raises:
        Damaged: The fixed part is not whole, or not of this version.
    """
    _, _, form, tokens, *_ = _fixed(beginning)
    return _header_length(form, tokens)


def parse_header(content: Buffer) -> tuple[BlockHeader, int, int]:
    """Read a file's beginning, which may be followed by anything.

    Returns:
        The header, its own length and the payload's, in bytes.

    Raises:
        Damaged: It is not whole, or not of this version.
    """
    _, _, form, tokens, position, payload, scope, before = _fixed(content)
    length = _header_length(form, tokens)
    if len(content) < length or tokens % TOKEN_BYTES:
        raise Damaged("shorter than its header says, or with a part of a token")
    checked = memoryview(content)[: length - _CHECKSUM_BYTES]
    if xxhash.xxh3_64_digest(checked) != content[length - _CHECKSUM_BYTES : length]:
        raise Damaged("a header that does not match its checksum")
    middle, end = _FIXED.size + tokens, _FIXED.size + tokens + form
    header = BlockHeader(
        scope_digest=scope,
        before=before,
        tokens=Tokens(bytes(content[_FIXED.size : middle])),
        position=position,
        form=bytes(content[middle:end]).decode(errors="replace"),
    )
    return header, length, payload


def parse(content: Buffer) -> StoredBlock:
    """Read a whole file. The payload is a view into ``content``.

    Raises:
        Damaged: A byte of it is not as it was written, is missing, or is too many.
    """
    header, start, payload_bytes = parse_header(content)
    end = start + payload_bytes
    if len(content) != end + _CHECKSUM_BYTES:
        raise Damaged("longer or shorter than its header says")
    view = memoryview(content)
    if trailer_bytes(view[:start], view[start:end]) != view[end:]:
        raise Damaged("a payload that does not match its checksum")
    return StoredBlock(header, view[start:end])


def _fixed(content: Buffer) -> tuple[bytes, int, int, int, int, int, bytes, bytes]:
    if len(content) < _FIXED.size:
        raise Damaged("shorter than a header")
    fixed: tuple[bytes, int, int, int, int, int, bytes, bytes] = _FIXED.unpack_from(content)
    if fixed[:2] != (MAGIC, VERSION):
        raise Damaged("no header, or of another version")
    return fixed


def _header_length(form_bytes: int, tokens_bytes: int) -> int:
    length = _FIXED.size + tokens_bytes + form_bytes + _CHECKSUM_BYTES
    return -(-length // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _seed(header: Buffer) -> int:
    return int.from_bytes(header[-_CHECKSUM_BYTES:], "little")
