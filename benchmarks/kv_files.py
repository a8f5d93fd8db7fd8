"""What keeping KV blocks as files costs: read, write, look, list, and making room.

Run it from the project root: ``python benchmarks/kv_files.py [--smoke] [--json out.json]``.

``bare`` is the same bytes in files of their own: open, read or write, close; nothing is checked,
bounded, or written aside first. It is what a disk with a page cache takes at least. Rounds take
turns, and the least of them counts. CPU is that of the process; ``x bare`` compares it. A block is
16 tokens of a model with 23 KB of KV for each (135 million weights, bf16), or with 128 KB (8
billion). With every block checked, reading one must cost far less than computing it: 1 ms a token
on this kind of CPU for the small model.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from report import parse_arguments, print_table, write

from stepwell.core.kv import KvScope, Tokens
from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.format import BlockHeader, StoredBlock

TOKENS = 16
SCOPE = KvScope(model="m", tokenizer="t", dtype="d", rope="r").digest()


@dataclass
class Row:
    """One thing that is measured."""

    what: str
    run: Callable[[], None]
    blocks: int
    cpu_us: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Run a round, and note what one block took."""
        start = time.process_time()
        self.run()
        self.cpu_us.append((time.process_time() - start) / self.blocks * 1e6)


def make_blocks(count: int, payload_bytes: int) -> list[StoredBlock]:
    """Return a chain of blocks with a random payload."""
    payload = memoryview(os.urandom(payload_bytes))
    blocks: list[StoredBlock] = []
    before: bytes = SCOPE
    for number in range(count):
        tokens = Tokens(number.to_bytes(4, "little") * TOKENS)
        header = BlockHeader(SCOPE, before, tokens, number * TOKENS, "bench")
        blocks.append(StoredBlock(header, payload))
        before = header.id
    return blocks


class Bare:
    """The same bytes in files without anything."""

    def __init__(self, folder: Path, blocks: Sequence[StoredBlock]) -> None:
        folder.mkdir()
        self._paths = [folder / block.header.id.hex() for block in blocks]
        self._blocks = blocks

    def write(self) -> None:
        """Write all."""
        for path, block in zip(self._paths, self._blocks, strict=True):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(descriptor, block.payload)
            os.close(descriptor)

    def read(self) -> None:
        """Read all."""
        for path, block in zip(self._paths, self._blocks, strict=True):
            descriptor = os.open(path, os.O_RDONLY)
            content = bytearray(len(block.payload))
            os.readv(descriptor, [content])
            os.close(descriptor)


class Kept:
    """The same blocks as Stepwell keeps them."""

    def __init__(self, folder: Path, blocks: Sequence[StoredBlock]) -> None:
        self._files = BlockFiles(folder, max_bytes=2**40)
        self._blocks = blocks
        self._names = [block.header.id for block in blocks]

    def write(self) -> None:
        """Write all; those of the last round go before."""
        for name, block in zip(self._names, self._blocks, strict=True):
            self._files.discard(SCOPE, name)
            self._files.write(block)

    def read(self) -> None:
        """Read all, and check each."""
        for name in self._names:
            self._files.read(SCOPE, name)

    def look(self) -> None:
        """See whether they are there, and note that they are used."""
        for name in self._names:
            self._files.note_use(SCOPE, name)

    def list(self) -> None:
        """Read all headers."""
        for _ in self._files.headers(SCOPE):
            pass


def measure(folder: Path, payload_bytes: int, count: int, rounds: int) -> list[dict[str, object]]:
    """Return the rows of one size of block."""
    blocks = make_blocks(count, payload_bytes)
    bare, kept = Bare(folder / "bare", blocks), Kept(folder / "kv", blocks)
    rows = [
        Row("bare write", bare.write, count),
        Row("write", kept.write, count),
        Row("bare read", bare.read, count),
        Row("read", kept.read, count),
        Row("look", kept.look, count),
        Row("list", kept.list, count),
    ]
    for _ in range(rounds):
        for row in rows:
            row.measure()
    least = {row.what: min(row.cpu_us) for row in rows}
    return [
        {
            "bytes": payload_bytes,
            "what": row.what,
            "CPU us": least[row.what],
            **_against_bare(row.what, payload_bytes, least),
        }
        for row in rows
    ]


def _against_bare(what: str, payload_bytes: int, least: Mapping[str, float]) -> dict[str, object]:
    bare = least.get(f"bare {what}")
    if bare is None:
        return {}
    return {"GB/s": payload_bytes / least[what] / 1e3, "x bare": least[what] / bare}


def make_room(folder: Path, count: int) -> dict[str, object]:
    """Return what a write costs, in a full folder, that makes the least recently used leave."""
    blocks = make_blocks(3 * count, 1_000)
    files = BlockFiles(folder / "kv", max_bytes=1_300 * count)
    for block in blocks[: 2 * count]:
        files.write(block)
    before = files.counts().evicted_files

    def write_more() -> None:
        for block in blocks[2 * count :]:
            files.write(block)

    row = Row("write when full", write_more, count)
    row.measure()
    evicted = files.counts().evicted_files - before
    return {
        "bytes": 1_000,
        "what": f"{row.what}, {evicted / count:.2f} leave",
        "CPU us": row.cpu_us[0],
    }


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments(__doc__ or "")
    results: list[dict[str, object]] = []
    for payload_bytes, count in ((16 * 23_040, 60), (16 * 131_072, 20)):
        folder = Path(tempfile.mkdtemp(prefix="stepwell-kv-"))
        try:
            results += measure(folder, payload_bytes, count, 3 if arguments.smoke else 15)
        finally:
            shutil.rmtree(folder)
    folder = Path(tempfile.mkdtemp(prefix="stepwell-kv-"))
    try:
        results.append(make_room(folder, 300 if arguments.smoke else 5_000))
    finally:
        shutil.rmtree(folder)
    print_table(results, ["bytes", "what", "CPU us", "GB/s", "x bare"])
    write("kv_files", results, arguments.json)


if __name__ == "__main__":
    main()
