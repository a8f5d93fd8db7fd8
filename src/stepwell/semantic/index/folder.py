"""The directory of an index: its names, its locks, its manifest.

    manifest                      the current one; replaced by renaming
    publish.lock, merge.lock      held by `flock`, so they end with their holder
    <32 hex digits>/              a segment: vectors, columns, texts, ivf-*, dead-*
    <32 hex digits>.building/     a segment that a holder of publish.lock is writing
    merge-<32 hex digits>/        the same for a holder of merge.lock

Whoever publishes holds ``publish.lock``, reads the manifest, and writes the next. The long work
of a merge is done under ``merge.lock`` alone. Only a publisher deletes, and only what the manifest
it has just published does not name: a worker that has it mapped keeps it.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepwell.semantic.index import manifest as manifests
from stepwell.semantic.index.manifest import Damaged, Identity, Manifest, SegmentRecord
from stepwell.semantic.index.progress import NOTHING

Stamp = tuple[int, int, int]
"""Inode, time of change and size: which manifest the name means."""

_MERGE_PREFIX = "merge-"
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def new_name() -> str:
    """Return a name that no segment has or had."""
    return uuid.uuid4().hex


class Folder:
    """One index directory, shared by the workers of a machine. Methods raise `OSError`."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self._manifest = path / "manifest"

    def make(self) -> None:
        """Make the directory, for this user only, unless it is there."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def stamp(self) -> Stamp | None:
        """Return which manifest there is; ``None`` without one. Costs one ``stat``."""
        try:
            status = self._manifest.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def manifest(self) -> Manifest | None:
        """Return the current manifest; ``None`` without one.

        Raises:
            Damaged: There is one that this index cannot use.
        """
        try:
            content = self._manifest.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return manifests.decode(content, self.identity)

    def usable_manifest(self) -> Manifest:
        """Return the current manifest, or the one before the first if there is none of use."""
        with suppress(Damaged):
            found = self.manifest()
            if found is not None:
                return found
        return Manifest(self.identity, new_name(), 0, NOTHING)

    def publish(self, manifest: Manifest) -> None:
        """Make ``manifest`` the current one, and delete what it does not name.

        Call under `publishing`. All it names is on disk, and its directory entries are flushed.
        """
        fresh = self._manifest.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(manifests.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._manifest)
        flush_directory(self.path)
        self._sweep(manifest)

    def segment(self, name: str) -> Path:
        """Return where a segment is."""
        return self.path / name

    def holds(self, segment: SegmentRecord) -> bool:
        """Return whether all files of a segment are there, of the right length."""
        try:
            return all(
                (self.path / segment.name / file.name).stat().st_size == file.size
                for file in segment.files
            )
        except (FileNotFoundError, NotADirectoryError):
            return False

    def building(self, name: str, *, merge: bool) -> Path:
        """Return where a segment is while it is written."""
        return self.path / (_MERGE_PREFIX + name if merge else f"{name}.building")

    def put_in_place(self, built: Path, name: str) -> None:
        """Give a written segment its name. Call under `publishing`."""
        flush_directory(built)
        built.rename(self.segment(name))
        flush_directory(self.path)

    def sweep_merges(self) -> None:
        """Delete what merges that were killed have left. Call under `merging`."""
        for path in self.path.glob(f"{_MERGE_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Hold ``publish.lock``.

        Raises:
            BlockingIOError: Somebody else has held it for ten seconds, and does.
        """
        with self._locked("publish.lock", _PATIENCE_SECONDS):
            yield

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Hold ``merge.lock``.

        Raises:
            BlockingIOError: Somebody else does.
        """
        with self._locked("merge.lock", 0.0):
            yield

    def is_merging(self) -> bool:
        """Return whether somebody holds ``merge.lock``."""
        try:
            with self.merging():
                return False
        except BlockingIOError:
            return True

    @contextmanager
    def _locked(self, name: str, patience_seconds: float) -> Iterator[None]:
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + patience_seconds
            while not _try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise BlockingIOError(f"{name} is held by another process")
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _sweep(self, manifest: Manifest) -> None:
        kept = {segment.name: segment for segment in manifest.segments}
        for path in self.path.iterdir():
            if not path.is_dir() or path.name.startswith(_MERGE_PREFIX):
                continue
            segment = kept.get(path.name)
            if segment is None:
                shutil.rmtree(path, ignore_errors=True)
                continue
            for dead in path.glob("dead-*"):
                if segment.dead is None or dead.name != segment.dead.name:
                    dead.unlink(missing_ok=True)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def flush_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
