"""The columns of a segment that is to be written. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt

from stepwell.core.names import Namespace
from stepwell.core.points import Group, Point
from stepwell.semantic.index import layout
from stepwell.semantic.index.layout import RECORD, Array, Shape

Indices = npt.NDArray[np.intp]

_PACE = 128
"""Points after which a thread that tabulates lets others run."""


@dataclass(frozen=True, slots=True)
class Table:
    """All columns of a segment but vectors and texts. Rows are in order of partition."""

    records: Array
    """Of `RECORD`; ``text_start`` counts from the first row's text."""
    partitions: tuple[bytes, ...]
    """Ascending."""
    starts: npt.NDArray[np.int64]
    """First row of each partition, and the number of rows."""
    groups: tuple[Group, ...]
    tags: npt.NDArray[np.uint64]
    tag_rows: npt.NDArray[np.uint32]
    """Beside ``tags``, in no order."""

    @property
    def shape(self) -> Shape:
        """How much it holds."""
        return Shape(
            len(self.records), len(self.partitions), len(self.tags), len(_encoded(self.groups))
        )

    def columns(self) -> dict[str, Array]:
        """Return the columns as `layout.sections` names them."""
        keys = layout.prefixes(self.records["key"])
        ids = layout.as_identifiers(b"".join(self.partitions))
        return {
            "records": self.records,
            "partition_ids": ids,
            "partition_prefixes": layout.prefixes(ids),
            "partition_starts": self.starts,
            "groups": np.frombuffer(_encoded(self.groups), np.uint8),
            **_sorted("keys", "key_rows", keys),
            **_sorted("expiries", "expiry_rows", self.records["expires"]),
            **_sorted("tags", "tag_rows", self.tags, self.tag_rows),
        }


def _sorted(
    name: str, rows_name: str, values: Array, rows: Array | None = None
) -> dict[str, Array]:
    order = np.argsort(values, kind="stable")
    return {name: values[order], rows_name: order if rows is None else rows[order]}


def tag_number(tag: str) -> int:
    """Return the number a tag is stored as. Two tags of one number are invalidated together."""
    return int.from_bytes(blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _encoded(groups: tuple[Group, ...]) -> bytes:
    return msgspec.json.encode([(g.namespace.hex(), g.model, g.request_class) for g in groups])


def decoded_groups(content: bytes) -> tuple[Group, ...]:
    """Return the groups in order of their numbers."""
    rows = msgspec.json.decode(content, type=list[tuple[str, str, str]])
    return tuple(Group(Namespace(bytes.fromhex(n)), model, name) for n, model, name in rows)


def tabulate(points: Sequence[Point], pause: Callable[[], None]) -> Table:
    """Return the table of ``points``, which are in order of partition and have distinct keys.

    Args:
        points: At least one.
        pause: Called every few points, so that a thread does not keep the interpreter.
    """
    groups: dict[Group, int] = {}
    records = np.zeros(len(points), RECORD)
    tags: list[tuple[int, int]] = []
    start = 0
    for row, point in enumerate(points):
        if row % _PACE == 0:
            pause()
        size = len(encoded_text(point.text))
        records[row] = (
            point.key,
            point.expires_at,
            np.nan if point.temperature is None else point.temperature,
            point.position,
            start,
            size,
            groups.setdefault(point.group, len(groups)),
        )
        start += size
        tags += [(tag_number(tag), row) for tag in point.tags]
    runs = [(part, len(list(run))) for part, run in groupby(p.partition for p in points)]
    return Table(
        records,
        tuple(partition for partition, _ in runs),
        _starts([length for _, length in runs]),
        tuple(groups),
        np.array([tag for tag, _ in tags], np.uint64),
        np.array([row for _, row in tags], np.uint32),
    )


def encoded_text(text: str) -> bytes:
    """Return the bytes a text is stored as; lone surrogates, which JSON can bring, included."""
    return text.encode("utf-8", "surrogatepass")


def _starts(lengths: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Part:
    """A segment that is merged: its columns, and which of its rows go on."""

    columns: Mapping[str, Array]
    keep: npt.NDArray[np.bool_]

    def partitions(self) -> list[bytes]:
        """Return the partitions, ascending."""
        return [bytes(identifier) for identifier in self.columns["partition_ids"]]


@dataclass(frozen=True, slots=True)
class Merged:
    """The table of several segments' rows, and where each row came from."""

    table: Table
    parts: Indices
    rows: Indices


def merge(parts: Sequence[Part]) -> Merged:
    """Return the table of what is kept of ``parts``; of one key, the row of the latest position."""
    ranks = {p: rank for rank, p in enumerate(sorted({p for x in parts for p in x.partitions()}))}
    rows = [np.flatnonzero(part.keep) for part in parts]
    part_of = np.repeat(np.arange(len(parts)), [len(kept) for kept in rows])
    row_of = np.concatenate(rows)
    records = np.concatenate(
        [part.columns["records"][kept] for part, kept in zip(parts, rows, strict=True)]
    )
    rank_of = np.concatenate(
        [_ranks(part, ranks)[kept] for part, kept in zip(parts, rows, strict=True)]
    )
    chosen = _latest(records)
    order = chosen[np.argsort(rank_of[chosen], kind="stable")]
    groups, numbers = _merged_groups(parts)
    records, part_of, row_of = records[order], part_of[order], row_of[order]
    for index, new_numbers in enumerate(numbers):
        mine = part_of == index
        records["group"][mine] = new_numbers[records["group"][mine]]
    records["text_start"] = _starts(records["text_bytes"].astype(np.int64))[:-1]
    counts = np.bincount(rank_of[order], minlength=len(ranks))
    tags, tag_rows = _merged_tags(parts, part_of, row_of)
    table = Table(
        records,
        tuple(p for p, count in zip(ranks, counts, strict=True) if count),
        _starts(counts[counts > 0]),
        groups,
        tags,
        tag_rows,
    )
    return Merged(table, part_of, row_of)


def _ranks(part: Part, ranks: Mapping[bytes, int]) -> Indices:
    return np.repeat(
        np.array([ranks[partition] for partition in part.partitions()], np.intp),
        np.diff(part.columns["partition_starts"]),
    )


def _latest(records: Array) -> Indices:
    """Return the rows to keep: one of each key."""
    keys = layout.prefixes(records["key"])
    order = np.lexsort((records["position"], keys))
    last = np.append(keys[order][1:] != keys[order][:-1], [True])[: len(order)]
    return np.sort(order[last])


def _merged_groups(parts: Sequence[Part]) -> tuple[tuple[Group, ...], list[Indices]]:
    groups: dict[Group, int] = {}
    numbers = [
        np.array(
            [
                groups.setdefault(group, len(groups))
                for group in decoded_groups(part.columns["groups"].tobytes())
            ],
            np.intp,
        )
        for part in parts
    ]
    return tuple(groups), numbers


def _merged_tags(
    parts: Sequence[Part], part_of: Indices, row_of: Indices
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    tags, tag_rows = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    for index, part in enumerate(parts):
        new_rows = np.full(len(part.keep), -1, np.int64)
        mine = part_of == index
        new_rows[row_of[mine]] = np.flatnonzero(mine)
        moved = new_rows[part.columns["tag_rows"].astype(np.intp)]
        tags.append(part.columns["tags"][moved >= 0].astype(np.uint64))
        tag_rows.append(moved[moved >= 0].astype(np.uint32))
    return np.concatenate(tags), np.concatenate(tag_rows)
