"""Writing protocol buffers: as much of the wire format as ONNX graphs and tokenizer models need.

https://protobuf.dev/programming-guides/encoding/. Written by hand because the alternatives are
packages of many megabytes that would be needed for one minute in the life of an installation.
"""

import struct
from collections.abc import Iterable

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_SIGN_WRAP = 1 << 64


def varint(value: int) -> bytes:
    """Return a number as the wire has it; a negative one takes ten bytes."""
    value %= _SIGN_WRAP
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004  (seven bits a byte)
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    """Return field ``number`` of a whole-number, enum or boolean type."""
    return varint(number << 3 | _VARINT) + varint(value)


def real(number: int, value: float) -> bytes:
    """Return field ``number`` of type ``float``."""
    return varint(number << 3 | _FIXED32) + struct.pack("<f", value)


def block(number: int, value: bytes | str) -> bytes:
    """Return field ``number`` of type ``bytes`` or ``string``, or a message that is ready."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


def blocks(number: int, values: Iterable[bytes | str]) -> bytes:
    """Return a repeated field of strings or messages."""
    return b"".join(block(number, value) for value in values)


def packed(number: int, values: Iterable[int]) -> bytes:
    """Return a repeated field of whole numbers, packed."""
    return block(number, b"".join(map(varint, values)))
