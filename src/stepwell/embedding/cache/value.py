"""A vector as bytes, and back. The only module that knows what they look like.

24 bytes of header, little-endian, then the numbers:

    0   3  magic: b"SWE"
    3   1  precision: 1 f32, 2 f16, 3 i8
    4   4  width: how many numbers
    8   4  tokens of the text, as the provider counted them
    12  4  scale, float32: what each number is multiplied by
    16  4  bytes 6 to 9 of the kind's fingerprint; its version has bytes 0 to 5
    20  4  CRC-32 (zlib) of all else
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stepwell.core.embedding import Precision, VectorKind

Numbers = npt.NDArray[np.float32]
"""Shape ``(width,)``; of whatever length the provider gives it."""

HEADER_BYTES: Final = 24

_MAGIC: Final = b"SWE"
_FIELDS: Final = struct.Struct("<3sBIIf4s")
_CRC: Final = struct.Struct("<I")
_HEADER: Final = struct.Struct("<3sBIIf4sI")
_CODES: Final[dict[Precision, int]] = {"f32": 1, "f16": 2, "i8": 3}
_NUMPY: Final[dict[Precision, np.dtype[np.generic]]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "i8": np.dtype("i1"),
}

_F16_TOP_EXPONENT: Final = 15
"""The largest number of a vector is brought below 2^15, where float16 is at its finest."""

_I8_MOST: Final = 127
MAX_TOKENS: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """The vector of a text."""

    vector: Numbers
    """Read-only, since several may hold it."""
    tokens: int
    """Of the text, as the provider counted them; its share, where it counted several together."""


def pack(vector: Numbers, kind: VectorKind, tokens: int) -> bytes:
    """Return ``vector`` as it is stored, rounded to the kind's precision.

    ``f32`` changes nothing. ``f16`` keeps 11 bits of each number, whatever the vector's length.
    ``i8`` keeps 127 steps up to the largest number.

    Args:
        vector: Finite, not zero.
        kind: Whose vector it is.
        tokens: Of its text.
    """
    scale, numbers = _encoded(vector, kind.precision)
    fields = _FIELDS.pack(
        _MAGIC,
        _CODES[kind.precision],
        vector.size,
        min(tokens, MAX_TOKENS),
        scale,
        _mark(kind),
    )
    crc = zlib.crc32(numbers, zlib.crc32(fields))
    return b"".join((fields, _CRC.pack(crc), numbers))


def unpack(value: bytes, kind: VectorKind) -> Embedding | None:
    """Return what `pack` made; ``None`` if it is damaged, or of another kind.

    Costs some 3 microseconds for 1536 numbers; ``f32`` copies nothing.
    """
    if len(value) <= HEADER_BYTES:
        return None
    magic, code, width, tokens, scale, mark, crc = _HEADER.unpack_from(value)
    dtype = _NUMPY[kind.precision]
    is_ours = (
        magic == _MAGIC
        and code == _CODES[kind.precision]
        and mark == _mark(kind)
        and len(value) == HEADER_BYTES + width * dtype.itemsize
        and (kind.dimensions is None or kind.dimensions == width)
    )
    if not is_ours or crc != _checksum(value):
        return None
    stored = np.frombuffer(value, dtype, offset=HEADER_BYTES)
    return Embedding(_decoded(stored, kind.precision, scale), tokens)


def _checksum(value: bytes) -> int:
    return zlib.crc32(memoryview(value)[HEADER_BYTES:], zlib.crc32(value[: _FIELDS.size]))


def _mark(kind: VectorKind) -> bytes:
    """Return what of the fingerprint does not stand in the key already."""
    return kind.fingerprint[6:10]


def _encoded(vector: Numbers, precision: Precision) -> tuple[float, bytes]:
    """Return the scale, and the numbers divided by it."""
    if precision == "f32":
        return 1.0, vector.astype(_NUMPY["f32"], copy=False).tobytes()
    most = float(np.abs(vector).max())
    if precision == "f16":
        # A power of two, so that scaling itself rounds nothing.
        scale = 2.0 ** (np.frexp(most)[1] - _F16_TOP_EXPONENT)
        return scale, (vector / np.float32(scale)).astype(_NUMPY["f16"]).tobytes()
    scale = float(np.float32(most / _I8_MOST))
    steps = np.rint(vector / np.float32(scale)).clip(-_I8_MOST, _I8_MOST)
    return scale, steps.astype(_NUMPY["i8"]).tobytes()


def _decoded(stored: npt.NDArray[np.generic], precision: Precision, scale: float) -> Numbers:
    vector: Numbers = stored.astype(np.float32, copy=False)
    if precision != "f32":
        vector *= np.float32(scale)
        vector.flags.writeable = False
    return vector
