"""How the columns of a segment lie in their file. Pure: names, types and offsets.

The counts in `Shape` decide every offset, so the file needs no header; the manifest holds the
shape, and the checksum of the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepwell.core.points import ID_BYTES

Array = npt.NDArray[Any]
"""A column; `sections` says of which type."""

RECORD = np.dtype(
    [
        ("key", f"V{ID_BYTES}"),
        ("expires", "<f8"),
        ("temperature", "<f8"),  # NaN where the request gave none.
        ("position", "<i8"),
        ("text_start", "<i8"),
        ("text_bytes", "<u4"),
        ("group", "<u4"),
    ]
)
"""What is known of one row; 72 bytes."""

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of everything a segment holds."""

    rows: int
    partitions: int
    tags: int
    """Pairs of a tag and a row."""
    group_bytes: int


@dataclass(frozen=True, slots=True)
class Section:
    """Where one column lies."""

    start: int
    dtype: np.dtype[np.generic]
    count: int


def sections(shape: Shape) -> dict[str, Section]:
    """Return the columns in the order of the file.

    ``records`` is in order of partition. What is looked up, such as ``keys``, is a sorted column
    beside one of the rows its values belong to. Identifiers are sorted by their first eight bytes
    as a number (`prefixes`); tags by `tag_number`.
    """
    columns = (
        ("records", RECORD, shape.rows),
        ("partition_ids", f"V{ID_BYTES}", shape.partitions),
        ("partition_prefixes", "<u8", shape.partitions),
        ("partition_starts", "<i8", shape.partitions + 1),
        ("keys", "<u8", shape.rows),
        ("key_rows", "<u4", shape.rows),
        ("expiries", "<f8", shape.rows),
        ("expiry_rows", "<u4", shape.rows),
        ("tags", "<u8", shape.tags),
        ("tag_rows", "<u4", shape.tags),
        ("groups", "u1", shape.group_bytes),
    )
    found: dict[str, Section] = {}
    start = 0
    for name, kind, count in columns:
        dtype: np.dtype[np.generic] = np.dtype(kind)
        found[name] = Section(start, dtype, count)
        start += -(-dtype.itemsize * count // _ALIGNMENT) * _ALIGNMENT
    return found


def size_of(shape: Shape) -> int:
    """Return the bytes of the file."""
    last = sections(shape)["groups"]
    return last.start + last.count


def laid_out(columns: Mapping[str, Array], shape: Shape) -> npt.NDArray[np.uint8]:
    """Return the content of the file."""
    content = np.zeros(size_of(shape), np.uint8)
    for name, section in sections(shape).items():
        raw = np.ascontiguousarray(columns[name], section.dtype).view(np.uint8)
        content[section.start : section.start + raw.size] = raw
    return content


def read(content: memoryview, shape: Shape) -> dict[str, Array]:
    """Return the columns as views of ``content``, which is as long as `size_of` says."""
    return {
        name: np.frombuffer(content, section.dtype, section.count, section.start)
        for name, section in sections(shape).items()
    }


def prefixes(identifiers: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Return the first eight bytes of 32-byte identifiers as numbers."""
    words = np.ascontiguousarray(identifiers).view(">u8").reshape(-1, ID_BYTES // 8)
    return words[:, 0].astype(np.uint64)


def prefix(identifier: bytes) -> np.uint64:
    """Return the first eight bytes as a number."""
    return np.uint64(int.from_bytes(identifier[:8], "big"))


def as_identifiers(joined: bytes) -> npt.NDArray[np.void]:
    """Return 32-byte identifiers that stand one after the other as an array."""
    return np.frombuffer(joined, f"V{ID_BYTES}")
