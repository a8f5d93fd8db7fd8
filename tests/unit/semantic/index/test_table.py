"""The columns of segments: what is written, and what a merge makes of several."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.points import make_group, make_id, make_point

from stepwell.core.points import Point
from stepwell.semantic.index import layout
from stepwell.semantic.index.layout import Array
from stepwell.semantic.index.table import (
    Part,
    Table,
    decoded_groups,
    encoded_text,
    merge,
    tabulate,
    tag_number,
)

points = st.builds(
    make_point,
    st.sampled_from([f"p{number}" for number in range(30)]),
    partition=st.sampled_from(["a", "b", "c"]),
    temperature=st.none() | st.floats(0, 2),
    expires_at=st.floats(0, 1e9),
    position=st.integers(0, 5),
    group=st.builds(make_group, st.integers(0, 2), st.sampled_from(["small", "large"])),
    tags=st.sets(st.sampled_from(["red", "blue"])).map(tuple),
)


def in_order(points: list[Point]) -> list[Point]:
    """Return points as a segment takes them: of distinct keys, in order of partition."""
    return sorted({p.key: p for p in points}.values(), key=lambda p: p.partition)


def read_back(table: Table) -> dict[str, Array]:
    """Return the columns after a way through the file."""
    content = memoryview(layout.laid_out(table.columns(), table.shape).tobytes())
    assert len(content) == layout.size_of(table.shape)
    return layout.read(content, table.shape)


def no_pause() -> None:
    """Go on."""


def rows_of(columns: dict[str, Array]) -> list[tuple[object, ...]]:
    """Return all that is known of each row, text apart."""
    groups = decoded_groups(columns["groups"].tobytes())
    starts = columns["partition_starts"].tolist()
    partitions = [
        bytes(identifier)
        for identifier, rows in zip(columns["partition_ids"], np.diff(starts), strict=True)
        for _ in range(rows)
    ]
    tags: dict[int, set[int]] = {}
    for tag, row in zip(columns["tags"].tolist(), columns["tag_rows"].tolist(), strict=True):
        tags.setdefault(row, set()).add(tag)
    return [
        (
            bytes(record["key"]),
            partitions[row],
            float(record["expires"]),
            None if np.isnan(record["temperature"]) else float(record["temperature"]),
            int(record["position"]),
            int(record["text_bytes"]),
            groups[record["group"]],
            frozenset(tags.get(row, set())),
        )
        for row, record in enumerate(columns["records"])
    ]


def expected(point: Point) -> tuple[object, ...]:
    """Return what `rows_of` should say of a point."""
    return (
        point.key,
        point.partition,
        point.expires_at,
        point.temperature,
        point.position,
        len(encoded_text(point.text)),
        point.group,
        frozenset(tag_number(tag) for tag in point.tags),
    )


@given(st.lists(points, min_size=1, max_size=30))
def test_points_come_back(some: list[Point]) -> None:
    """And the sorted columns lead to their rows."""
    ordered = in_order(some)
    columns = read_back(tabulate(ordered, no_pause))
    assert rows_of(columns) == [expected(point) for point in ordered]
    texts = [len(encoded_text(point.text)) for point in ordered]
    assert columns["records"]["text_start"].tolist() == [
        sum(texts[:row]) for row in range(len(texts))
    ]
    keys = layout.prefixes(columns["records"]["key"])
    assert columns["keys"].tolist() == sorted(keys.tolist())
    assert keys[columns["key_rows"]].tolist() == columns["keys"].tolist()
    assert columns["records"]["expires"][columns["expiry_rows"]].tolist() == sorted(
        point.expires_at for point in ordered
    )
    assert columns["tags"].tolist() == sorted(columns["tags"].tolist())


@given(
    st.lists(st.lists(points, min_size=1, max_size=15), min_size=1, max_size=4),
)
def test_a_merge_keeps_the_latest_of_what_is_kept(groups: list[list[Point]]) -> None:
    """Of each key, in order of partition, with everything that was known of it."""
    parts, kept = [], []
    for group in groups:
        ordered = in_order(group)
        keep = np.array([point.key[0] % 3 > 0 for point in ordered])
        parts.append(Part(read_back(tabulate(ordered, no_pause)), keep))
        kept.append([point for point, chosen in zip(ordered, keep, strict=True) if chosen])
    merged = merge(parts)
    columns = read_back(merged.table)
    latest: dict[bytes, Point] = {}
    for point in (point for part in kept for point in part):
        if point.key not in latest or latest[point.key].position <= point.position:
            latest[point.key] = point
    rows = rows_of(columns)
    assert sorted(map(repr, rows)) == sorted(repr(expected(point)) for point in latest.values())
    assert [row[1] for row in rows] == sorted(point.partition for point in latest.values())
    for row, (part, source) in enumerate(
        zip(merged.parts.tolist(), merged.rows.tolist(), strict=True)
    ):
        assert rows_of(dict(parts[part].columns))[source] == rows[row]


def test_nothing_kept() -> None:
    """Is a table without rows."""
    columns = read_back(tabulate([make_point()], no_pause))
    merged = merge([Part(columns, np.array([False]))])
    assert merged.table.shape.rows == 0


def test_texts_may_hold_anything() -> None:
    """JSON can bring half of a surrogate pair."""
    assert encoded_text("a\ud83d\u4f60").decode("utf-8", "surrogatepass") == "a\ud83d\u4f60"


def test_prefixes_are_ordered_as_bytes() -> None:
    """One number for an identifier, and the same in an array."""
    names = sorted(make_id(str(number)) for number in range(50))
    numbers = [int(layout.prefix(name)) for name in names]
    assert numbers == sorted(numbers)
    assert layout.prefixes(layout.as_identifiers(b"".join(names))).tolist() == numbers
