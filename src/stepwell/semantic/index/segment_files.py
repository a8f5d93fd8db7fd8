"""Writing a segment's files, and opening them once they are known to be whole."""

import mmap
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepwell.core.vectors import Vectors
from stepwell.semantic.index import ivf, layout
from stepwell.semantic.index.layout import Array
from stepwell.semantic.index.manifest import Damaged, FileRecord, SegmentRecord
from stepwell.semantic.index.table import Table

_READ_BYTES = 1 << 20


class Descriptor:
    """A file that is open for reading until nobody uses it any more."""

    def __init__(self, path: Path) -> None:
        """Open ``path``. Raises `OSError`."""
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.number)

    def size(self) -> int:
        """Return how long the file is now. Costs a fourth of `os.fstat`."""
        return os.lseek(self.number, 0, os.SEEK_END)

    def read(self, start: int, size: int) -> bytes:
        """Return ``size`` bytes from ``start``.

        Raises:
            Damaged: The file has become shorter.
            OSError: It cannot be read.
        """
        content = os.pread(self.number, size, start)
        if len(content) != size:
            raise Damaged("a segment's file was cut short")
        return content


def write_file(path: Path, chunks: Iterable[Array | bytes]) -> FileRecord:
    """Write a file that must not exist, flush it, and return what it must look like.

    Raises `OSError`, such as for a full disk.
    """
    size, crc = 0, 0
    with path.open("xb", buffering=0) as file:
        for chunk in chunks:
            rest = _bytes_of(chunk)
            crc = zlib.crc32(rest, crc)
            size += len(rest)
            while rest:
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    return FileRecord(path.name, size, crc)


def _bytes_of(chunk: Array | bytes) -> memoryview:
    return (
        memoryview(chunk)
        if isinstance(chunk, bytes)
        else np.ascontiguousarray(chunk).data.cast("B")
    )


def write_segment(
    directory: Path,
    name: str,
    table: Table,
    vectors: Iterable[Vectors],
    texts: Iterable[bytes],
    *,
    ivf_rows: int | None,
) -> SegmentRecord:
    """Write all files of a segment into ``directory``, which must not exist; remove it on failure.

    Args:
        directory: Where it is built.
        name: What it will be called.
        table: Its columns.
        vectors: In order of its rows, in pieces.
        texts: Likewise.
        ivf_rows: Rows of a partition from which on it gets an inverted file; ``None`` for never.

    Raises:
        OSError: Such as for a full disk.
    """
    directory.mkdir(mode=0o700)
    files = [
        write_file(directory / "vectors", vectors),
        write_file(directory / "texts", texts),
        write_file(directory / "columns", [layout.laid_out(table.columns(), table.shape)]),
    ]
    if ivf_rows is not None:
        files += _write_ivfs(directory, table, ivf_rows)
    return SegmentRecord(name, table.shape, tuple(files))


def _write_ivfs(directory: Path, table: Table, ivf_rows: int) -> Iterator[FileRecord]:
    dimensions = (directory / "vectors").stat().st_size // 4 // max(table.shape.rows, 1)
    large = np.flatnonzero(np.diff(table.starts) >= ivf_rows)
    for start, stop in np.stack([table.starts[large], table.starts[large + 1]], 1).tolist():
        vectors = np.memmap(
            directory / "vectors",
            np.float32,
            "r",
            offset=4 * dimensions * start,
            shape=(stop - start, dimensions),
        )
        path = directory / f"ivf-{start}"
        ivf.build(path, vectors, start)
        yield _written(path)


def _written(path: Path) -> FileRecord:
    """Flush a file that somebody else has written, and return what it must look like."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    file = Descriptor(path)
    return FileRecord(path.name, file.size(), _crc(file))


def write_dead(directory: Path, generation: int, dead: npt.NDArray[np.bool_]) -> FileRecord:
    """Write which rows of the segment in ``directory`` must never match again.

    Raises `OSError`. What a killed publisher left under that name is replaced.
    """
    path = directory / f"dead-{generation}"
    path.unlink(missing_ok=True)
    return write_file(path, [np.packbits(dead, bitorder="little")])


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """The files of one segment, verified and mapped. What is mapped goes with the last reference.

    Searches must not touch what is mapped of a file that has been cut short since: `are_whole`.
    """

    record: SegmentRecord
    vectors: Vectors
    """Mapped: for scans of whole partitions."""
    columns: dict[str, Array]
    """Mapped."""
    columns_bytes: int
    vectors_file: Descriptor
    columns_file: Descriptor
    texts_file: Descriptor
    ivf_files: dict[int, Descriptor]
    """By first row."""

    def are_whole(self) -> bool:
        """Return whether the mapped files still have the length they had. Costs a microsecond."""
        return (
            self.vectors_file.size() == self.vectors.nbytes
            and self.columns_file.size() == self.columns_bytes
        )


def open_files(directory: Path, record: SegmentRecord, dimensions: int) -> OpenedFiles:
    """Verify every file of a segment and map them. Costs a read of all of it.

    Raises:
        Damaged: A file is missing, or is not what was written.
        OSError: A file cannot be opened or mapped now, such as for want of descriptors or memory.
    """
    opened = {file.name: _verified(directory, file) for file in record.files}
    try:
        vectors, columns = opened.pop("vectors"), opened.pop("columns")
        texts = opened.pop("texts")
        ivfs = {int(name.removeprefix("ivf-")): file for name, file in opened.items()}
    except (KeyError, ValueError) as error:
        raise Damaged(f"the manifest describes no segment of ours: {error}") from error
    rows = record.shape.rows
    if vectors.size() != 4 * rows * dimensions or columns.size() != layout.size_of(record.shape):
        raise Damaged("a file of a segment does not have the length its shape asks for")
    return OpenedFiles(
        record,
        np.frombuffer(_mapped(vectors), np.float32).reshape(rows, dimensions),
        layout.read(_mapped(columns), record.shape),
        columns.size(),
        vectors,
        columns,
        texts,
        ivfs,
    )


def read_dead(directory: Path, record: SegmentRecord) -> npt.NDArray[np.bool_]:
    """Return which rows of a segment must never match again.

    Raises:
        Damaged: Nobody knows: the segment must not be used.
        OSError: The file cannot be read now.
    """
    rows = record.shape.rows
    if record.dead is None:
        return np.zeros(rows, np.bool_)
    file = _verified(directory, record.dead)
    bits = np.frombuffer(file.read(0, file.size()), np.uint8)
    if len(bits) != (rows + 7) // 8:
        raise Damaged("the dead rows of a segment are those of another")
    return np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)


def _verified(directory: Path, record: FileRecord) -> Descriptor:
    try:
        file = Descriptor(directory / record.name)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Damaged(f"{record.name} of a segment is missing") from error
    if file.size() != record.size:
        raise Damaged(f"{record.name} of a segment has {file.size()} bytes, not {record.size}")
    if _crc(file) != record.crc:
        raise Damaged(f"{record.name} of a segment does not match its checksum")
    return file


def _crc(file: Descriptor) -> int:
    crc, start = 0, 0
    while chunk := os.pread(file.number, _READ_BYTES, start):
        crc = zlib.crc32(chunk, crc)
        start += len(chunk)
    return crc


def _mapped(file: Descriptor) -> memoryview:
    if not file.size():
        return memoryview(b"")
    return memoryview(mmap.mmap(file.number, 0, access=mmap.ACCESS_READ))
