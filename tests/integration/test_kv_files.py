"""KV blocks as files: what a disk, other processes and time can do to them."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kv_blocks import make_block, make_chain, make_scope
from support.mount import mount

from stepwell.core.errors import StoreUnavailable
from stepwell.core.kv import Tokens
from stepwell.stores.kv.account import Account
from stepwell.stores.kv.counts import ReadOutcome, WriteOutcome
from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.folder import Folder
from stepwell.stores.kv.format import BlockHeader, StoredBlock
from stepwell.testing.clock import HandClock

SCOPE = make_scope().digest()


def open_files(
    folder: Path, *, max_bytes: int = 10**9, clock: HandClock | None = None
) -> BlockFiles:
    return BlockFiles(
        folder, max_bytes=max_bytes, clock=clock or HandClock(), lock_timeout_seconds=0.05
    )


def read(files: BlockFiles, header: BlockHeader) -> StoredBlock | None:
    return files.read(header.scope_digest, header.id)


def block_paths(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kv"))


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("v1/*/**/*") if path.is_file())


def test_comes_back(tmp_path: Path) -> None:
    """A block comes back as it was, also to another process's eyes; what is not there does not."""
    files, block = open_files(tmp_path), make_block(payload_bytes=100_000)
    assert read(files, block.header) is None
    assert files.write(block) is WriteOutcome.WRITTEN
    assert files.write(block) is WriteOutcome.PRESENT
    assert read(files, block.header) == read(open_files(tmp_path), block.header) == block
    assert files.note_use(SCOPE, block.header.id)
    assert not files.note_use(make_scope("other").digest(), block.header.id)
    assert read(files, make_block(1).header) is None
    counts = files.counts()
    assert counts.reads == {"hit": 1, "absent": 2, "damaged": 0, "failed": 0}
    assert (counts.bytes_read, counts.bytes_written) == (100_000, 100_000)
    assert files.take_last_error() == ""


def test_payload_needs_no_copy(tmp_path: Path) -> None:
    """The payload can be written to as an array, and belongs to the reader alone."""
    numpy = pytest.importorskip("numpy")
    files, block = open_files(tmp_path), make_block()
    files.write(block)
    one, other = read(files, block.header), read(files, block.header)
    assert one is not None
    assert other is not None
    array = numpy.frombuffer(one.payload, numpy.uint8)
    array[:] = 7
    assert bytes(one.payload) == bytes([7]) * 1000
    assert other == block


def test_flushed(tmp_path: Path) -> None:
    """Flushing changes nothing that can be seen."""
    files, block = BlockFiles(tmp_path, max_bytes=10**6, is_flushed=True), make_block()
    assert files.write(block) is WriteOutcome.WRITTEN
    assert read(files, block.header) == block


@pytest.mark.parametrize("content", [b"", b"x" * 40, b"stepwell"])
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    """It is missed once, counted and removed; then the block can be written again."""
    files, block = open_files(tmp_path), make_block()
    files.write(block)
    (path,) = block_paths(tmp_path)
    path.write_bytes(content)
    assert read(files, block.header) is None
    assert files.counts().reads[ReadOutcome.DAMAGED] == 1
    assert "Damaged" in files.take_last_error()
    assert files.take_last_error() == ""
    assert block_paths(tmp_path) == []
    assert files.write(block) is WriteOutcome.WRITTEN
    assert read(files, block.header) == block


def test_file_of_another_block(tmp_path: Path) -> None:
    """A whole file under another block's name, or in another scope's folder, is damaged."""
    files, one, other = open_files(tmp_path), make_block(1), make_block(2)
    files.write(one)
    (path,) = block_paths(tmp_path)
    for header in (other.header, make_block(1, scope=make_scope("another")).header):
        name = header.id.hex()
        place = tmp_path / "v1" / header.scope_digest.hex() / name[:2] / f"{name}.kv"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
        assert read(files, header) is None
        assert not place.exists()
    assert read(files, one.header) == one


def test_endless_file(tmp_path: Path) -> None:
    """A file that is longer than all may be is damaged, and not read into memory."""
    files, block = open_files(tmp_path, max_bytes=10**6), make_block()
    files.write(block)
    (path,) = block_paths(tmp_path)
    os.truncate(path, 2**40)
    assert read(files, block.header) is None
    assert not path.exists()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """Other names, links and folders survive looking, making room and listing."""
    clock = HandClock()
    files, block = open_files(tmp_path, max_bytes=5_000, clock=clock), make_block()
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    files.write(block)
    (path,) = block_paths(tmp_path)
    path.unlink()
    path.symlink_to(target)
    (path.parent / "notes.txt").write_bytes(bytes(10_000))
    (path.parent / ("0" * 32 + ".kv")).mkdir()
    assert read(files, block.header) is None
    assert files.counts().reads[ReadOutcome.FAILED] == 1
    for number in range(1, 20):
        assert files.write(make_block(number)) is WriteOutcome.WRITTEN
        clock.seconds += 60
    assert len(list(files.headers(SCOPE))) == 4
    assert path.is_symlink()
    assert target.read_bytes() == b"precious"
    assert (path.parent / "notes.txt").stat().st_size == 10_000
    assert (path.parent / ("0" * 32 + ".kv")).is_dir()


def test_fifo_does_not_hang(tmp_path: Path) -> None:
    """A pipe under a block's name is no file, and nobody waits for its writer."""
    files, block = open_files(tmp_path), make_block()
    files.write(block)
    (path,) = block_paths(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert read(files, block.header) is None
    assert files.counts().reads[ReadOutcome.FAILED] == 1


def test_bound_is_kept_and_least_recently_used_leave(tmp_path: Path) -> None:
    """Files never have more bytes than allowed; those read a minute ago stay before others."""
    clock = HandClock()
    files = open_files(tmp_path, max_bytes=12_000, clock=clock)
    chosen = make_block(0)
    for number in range(40):
        clock.seconds += 60
        files.write(make_block(number))
        assert bytes_in(tmp_path) <= 12_000
        assert read(files, chosen.header) == chosen
    counts = files.counts()
    assert counts.evicted_files == 40 - len(block_paths(tmp_path)) > 20
    assert read(files, make_block(39).header) is not None
    assert read(files, make_block(20).header) is None


def test_a_prefix_leaves_from_its_end(tmp_path: Path) -> None:
    """Of blocks used in the same minute, what stays can be reached from the first."""
    clock = HandClock()
    files, chain = open_files(tmp_path, max_bytes=30_000, clock=clock), make_chain(20)
    for block in chain:
        files.write(block)
    clock.seconds += 600
    assert all(files.note_use(SCOPE, block.header.id) for block in chain)
    for number in range(100, 110):
        files.write(make_block(number))
    found = [read(files, block.header) is not None for block in chain]
    assert found == sorted(found, reverse=True)
    assert 5 < sum(found) < 20


def test_use_is_noted_once_a_minute(tmp_path: Path) -> None:
    """Reading a block again within a minute writes nothing to the disk."""
    clock = HandClock()
    files, block = open_files(tmp_path, clock=clock), make_block()
    files.write(block)
    (path,) = block_paths(tmp_path)
    written = path.stat().st_mtime_ns
    read(files, block.header)
    assert path.stat().st_mtime_ns == written
    clock.seconds += 60
    read(files, block.header)
    assert path.stat().st_mtime_ns == written + 60 * 10**9


def test_empty_folders_leave(tmp_path: Path) -> None:
    """A scope that nobody has used for long leaves nothing behind; young folders stay."""
    clock = HandClock(time.time())
    files = open_files(tmp_path, max_bytes=3_000, clock=clock)
    files.write(make_block(scope=make_scope("old")))
    for number in range(5):
        clock.seconds += 60
        files.write(make_block(number))
    old = tmp_path / "v1" / make_scope("old").digest().hex()
    assert len(list(old.iterdir())) == 1
    for number in range(5, 15):
        clock.seconds += 4_000
        files.write(make_block(number))
    assert not old.exists()
    assert len(block_paths(tmp_path)) == 2


def test_too_large(tmp_path: Path) -> None:
    """A block that could never fit is refused, and nothing leaves for it."""
    files = open_files(tmp_path, max_bytes=3_000)
    files.write(make_block(0))
    assert files.write(make_block(1, payload_bytes=3_000)) is WriteOutcome.TOO_LARGE
    assert read(files, make_block(0).header) is not None


def test_left_over_from_a_killed_writer(tmp_path: Path) -> None:
    """What a writer left counts as long as it may still be writing, and is removed after."""
    clock = HandClock()
    aside = tmp_path / "v1" / "aside" / f"{bytes(16).hex()}.1.{bytes(8).hex()}"
    open_files(tmp_path)
    aside.write_bytes(bytes(9_500))
    os.utime(aside, (clock.now(), clock.now()))
    first = open_files(tmp_path, max_bytes=10_000, clock=clock)
    assert first.write(make_block()) is WriteOutcome.BUSY
    clock.seconds += 4000
    assert open_files(tmp_path, max_bytes=10_000, clock=clock).write(make_block()) == "written"
    assert not aside.exists()


def test_account_that_makes_no_sense(tmp_path: Path) -> None:
    """It is made anew from the files."""
    files = open_files(tmp_path, max_bytes=5_000)
    for number, junk in enumerate((b"", b"junk", bytes(8), b"\xff" * 8, bytes(100))):
        (tmp_path / "v1" / "bytes").write_bytes(junk)
        assert files.write(make_block(number)) is WriteOutcome.WRITTEN
    for number in range(10, 20):
        files = open_files(tmp_path, max_bytes=5_000)
        files.write(make_block(number))
        assert bytes_in(tmp_path) <= 5_000


def test_folder_is_removed_meanwhile(tmp_path: Path) -> None:
    """Reads miss and writes are refused; nothing is raised."""
    files = open_files(tmp_path / "folder")
    files.write(make_block())
    (tmp_path / "folder").rename(tmp_path / "elsewhere")
    assert read(files, make_block().header) is None
    assert files.write(make_block()) is WriteOutcome.FAILED
    assert list(files.headers(SCOPE)) == []


def test_headers(tmp_path: Path) -> None:
    """A chain can be put together again from what is listed; what is damaged is not listed."""
    files, chain = open_files(tmp_path), make_chain(10)
    long = make_block(7000, payload_bytes=10)
    wide = StoredBlock(
        BlockHeader(SCOPE, SCOPE, Tokens(make_block().header.tokens * 200), 0, "wide"),
        memoryview(b""),
    )
    for block in (*chain, long, wide):
        files.write(block)
    files.write(make_block(scope=make_scope("other")))
    damaged = block_paths(tmp_path / "v1" / SCOPE.hex())[3]
    damaged.write_bytes(damaged.read_bytes()[:70])
    expected = {block.header for block in (*chain, long, wide)}
    listed = set(files.headers(SCOPE))
    assert len(expected - listed) == 1
    assert listed < expected
    assert not damaged.exists()


def test_full_disk(small_disk: Path) -> None:
    """Writes are refused and counted, reads go on; with space again, writes work."""
    files = open_files(small_disk)
    number = 0
    while (outcome := files.write(make_block(number, payload_bytes=500_000))) == "written":
        number += 1
    assert outcome is WriteOutcome.NO_SPACE
    assert number > 5
    assert "No space left" in files.take_last_error()
    assert files.read(SCOPE, make_block(0, payload_bytes=500_000).header.id) is not None
    assert list((small_disk / "v1" / "aside").iterdir()) == []
    mount("-o", "remount,size=24m", str(small_disk))
    assert files.write(make_block(number, payload_bytes=500_000)) is WriteOutcome.WRITTEN


def test_read_only_disk(small_disk: Path) -> None:
    """What is there is read; writes are refused; opening says what to do."""
    files, block = open_files(small_disk), make_block()
    files.write(block)
    mount("-o", "remount,ro", str(small_disk))
    assert read(files, block.header) == block
    assert files.write(make_block(1)) is WriteOutcome.FAILED
    with pytest.raises(StoreUnavailable, match="choose another folder"):
        open_files(small_disk / "new")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read and write everything")
def test_no_permission(tmp_path: Path) -> None:
    """A file that may not be read is a counted miss and stays where it is."""
    files, block = open_files(tmp_path), make_block()
    files.write(block)
    (path,) = block_paths(tmp_path)
    path.chmod(0)
    assert read(files, block.header) is None
    assert files.counts().reads[ReadOutcome.FAILED] == 1
    assert path.exists()
    tmp_path.chmod(0o500)
    with pytest.raises(StoreUnavailable, match="make it writable for user id"):
        open_files(tmp_path / "new")


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """Files tell what was asked, so others get none of them, whatever the umask."""
    before = os.umask(0)
    try:
        open_files(tmp_path / "kv").write(make_block())
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "kv").rglob("*")}
    assert modes == {0}


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock_holder(tmp_path: Path) -> Iterator[Path]:
    """Hold a folder's account in another process until the test is over."""
    open_files(tmp_path)
    account = str(tmp_path / "v1" / "bytes")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDER, account], text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "locked\n"
        yield tmp_path
        process.stdin.close()


def test_a_process_that_does_not_let_go(lock_holder: Path) -> None:
    """Writes are refused after a moment, and nobody hangs."""
    assert open_files(lock_holder).write(make_block()) is WriteOutcome.BUSY


WRITER = """
import sys
from pathlib import Path
from support.kv_blocks import make_block, make_scope
from stepwell.stores.kv.files import BlockFiles

files = BlockFiles(Path(sys.argv[1]), max_bytes=200_000)
for number in range(400):
    block = make_block(number % 150, payload_bytes=4_000)
    files.write(block)
    back = files.read(block.header.scope_digest, block.header.id)
    assert back is None or back == block
assert files.counts().reads["damaged"] == files.counts().reads["failed"] == 0
assert files.counts().writes["failed"] == 0
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    """Processes that write the same blocks and push out each other's keep bound and content."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(subprocess.Popen(command, env=environment)) for _ in range(3)
        ]
        most = 0
        while any(writer.poll() is None for writer in writers):
            most = max(most, bytes_of_blocks(tmp_path))
            time.sleep(0.005)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert 100_000 < bytes_in(tmp_path) <= 200_000
    assert most <= 200_000
    assert list((tmp_path / "v1" / "aside").iterdir()) == []
    assert int.from_bytes((tmp_path / "v1" / "bytes").read_bytes(), "little") >= bytes_in(tmp_path)


def bytes_of_blocks(root: Path) -> int:
    """Return the bytes there are at one moment, while others write; rather fewer than more.

    Nothing is added or removed while the account is held; files may be renamed, though.
    """
    folder = Folder(root)
    folder.make()
    with Account(folder.account, timeout_seconds=10.0).held():
        blocks = sum(file.size_bytes for file in folder.files(0))
        return blocks + sum(file.size_bytes for file in folder.asides())


def test_threads_share_files(tmp_path: Path) -> None:
    """Threads that write and read the same blocks get what was written, or nothing."""
    files, chain = open_files(tmp_path, max_bytes=40_000), make_chain(60)
    wrong: list[BlockHeader] = []

    def work(start: int) -> None:
        for block in (*chain[start:], *chain[:start]):
            files.write(block)
            if read(files, block.header) not in (None, block):
                wrong.append(block.header)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 60, 15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert files.counts().reads[ReadOutcome.DAMAGED] == 0
    assert bytes_in(tmp_path) <= 40_000
