"""Where the files of KV blocks stand, and which files of a folder are such."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stepwell.core.errors import StoreUnavailable
from stepwell.core.kv import BlockId
from stepwell.stores.kv.format import VERSION

_DIGEST = re.compile(r"[0-9a-f]{32}")
_FAN = re.compile(r"[0-9a-f]{2}")
_BLOCK = re.compile(r"[0-9a-f]{32}\.kv")
_ASIDE = re.compile(r"[0-9a-f]{32}\.[0-9]+\.[0-9a-f]{16}")

ABANDONED_SECONDS = 3600.0
"""What is still being written after this time is left over from a process that was killed."""


@dataclass(frozen=True, slots=True, order=True)
class FoundFile:
    """A file of ours; the one used longest ago sorts first."""

    mtime_ns: int
    size_bytes: int
    path: str


class Folder:
    """Paths below one folder: ``v1/<scope>/<first byte of the id>/<id>.kv``.

    Whatever else stands in the folder is somebody else's and left alone: other names, and what is
    not a regular file.
    """

    def __init__(self, root: Path) -> None:
        self._root = root / f"v{VERSION}"
        self.account = self._root / "bytes"
        self._aside = self._root / "aside"

    def make(self) -> None:
        """Make the folder, for this user only, if it is not there.

        Raises:
            StoreUnavailable: It cannot be made or written to; says what to do about it.
        """
        try:
            self._root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(mode=0o700, exist_ok=True)
            self._aside.mkdir(mode=0o700, exist_ok=True)
            self.account.touch(mode=0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write to the folder of KV blocks {self._root}: {error.strerror}; "
                f"make it writable for user id {os.getuid()}, or choose another folder"
            ) from error

    def path(self, scope_digest: bytes, block: BlockId) -> str:
        """Return where a block stands, or would. A text: a `Path` costs more than asking for it."""
        name = block.hex()
        return f"{self._root}/{scope_digest.hex()}/{name[:2]}/{name}.kv"

    def aside(self, block: BlockId) -> str:
        """Return a new name for a block that is being written."""
        return f"{self._aside}/{block.hex()}.{os.getpid()}.{os.urandom(8).hex()}"

    def publish(self, aside: str, path: str) -> None:
        """Rename what has been written. Raises `OSError`."""
        try:
            os.replace(aside, path)  # noqa: PTH105
        except FileNotFoundError:
            fan = Path(path).parent
            fan.parent.mkdir(mode=0o700, exist_ok=True)
            fan.mkdir(mode=0o700, exist_ok=True)
            os.replace(aside, path)  # noqa: PTH105

    def blocks(self, scope_digest: bytes) -> Iterator[str]:
        """Yield the files of a scope, in no order."""
        for fan in _entries(self._root / scope_digest.hex(), _FAN):
            for entry in _entries(fan, _BLOCK):
                yield entry.path

    def files(self, abandoned_ns: int) -> Iterator[FoundFile]:
        """Yield all files of blocks, in no order.

        Removes folders on the way that are empty and have not changed since ``abandoned_ns``.
        Younger ones may have been made for a file that is about to appear there.
        """
        for scope in _entries(self._root, _DIGEST):
            for fan in _entries(scope, _FAN):
                yield from _found(_entries(fan, _BLOCK))
                _remove_if_empty(fan, abandoned_ns)
            _remove_if_empty(scope, abandoned_ns)

    def asides(self) -> Iterator[FoundFile]:
        """Yield the files that are being written, or were when their process was killed."""
        yield from _found(_entries(self._aside, _ASIDE))


def _entries(
    folder: str | os.PathLike[str], pattern: re.Pattern[str]
) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from (entry for entry in entries if pattern.fullmatch(entry.name))


def _found(entries: Iterator[os.DirEntry[str]]) -> Iterator[FoundFile]:
    for entry in entries:
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield FoundFile(status.st_mtime_ns, status.st_size, entry.path)


def _remove_if_empty(folder: os.DirEntry[str], abandoned_ns: int) -> None:
    with suppress(OSError):
        if folder.stat(follow_symlinks=False).st_mtime_ns < abandoned_ns:
            os.rmdir(folder)  # noqa: PTH106  (an entry of a scan is no Path)
