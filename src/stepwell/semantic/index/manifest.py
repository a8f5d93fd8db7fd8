"""The manifest: which segments there are, and how to know that they are whole. Pure."""

import re
import zlib
from dataclasses import dataclass, replace

import msgspec

from stepwell.semantic.index.layout import Shape
from stepwell.semantic.index.progress import Progress

FORMAT = 1
"""Raise it with anything that changes what a byte of a segment or a manifest means."""

_NAME = re.compile(r"[0-9a-f]{32}")


class Damaged(Exception):
    """A file is not what was written: nothing in it can be trusted."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose vectors an index holds. Those of another identity are never compared."""

    model_id: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a segment, and what it must look like before it is mapped."""

    name: str
    size: int
    crc: int
    """CRC-32 of its content."""


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A segment: a directory of files that never change."""

    name: str
    shape: Shape
    files: tuple[FileRecord, ...]
    """``vectors``, ``columns``, ``texts``, and an ``ivf-ROW`` for each partition that has one."""
    dead: FileRecord | None = None
    """One bit a row, set for those that must never match again."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index directory holds. Replaced as a whole, never changed."""

    identity: Identity
    lineage: str
    """Drawn when the directory was first written; another one is another index."""
    generation: int
    progress: Progress
    """What is in the segments: points, and removals."""
    segments: tuple[SegmentRecord, ...] = ()
    format: int = FORMAT

    def named(self, name: str) -> SegmentRecord | None:
        """Return the segment of that name."""
        return next((segment for segment in self.segments if segment.name == name), None)

    def followed_by(self, segments: tuple[SegmentRecord, ...], progress: Progress) -> "Manifest":
        """Return the next generation."""
        return replace(self, generation=self.generation + 1, progress=progress, segments=segments)


def encode(manifest: Manifest) -> bytes:
    """Return the content of the manifest's file: a checksum, and JSON."""
    body = msgspec.json.encode(manifest)
    return b"%08x\n%s\n" % (zlib.crc32(body), body)


def decode(content: bytes, identity: Identity) -> Manifest:
    """Return the manifest in ``content``.

    Raises:
        Damaged: It is torn or changed, or of another version, model or width.
    """
    checksum, _, body = content.removesuffix(b"\n").partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(body):
        raise Damaged("the manifest does not match its checksum")
    try:
        if msgspec.json.decode(body, type=_Head).format != FORMAT:
            raise Damaged("the manifest is of another version")
        manifest = msgspec.json.decode(body, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"the manifest cannot be read: {error}") from error
    if manifest.identity != identity:
        raise Damaged(
            f"the index holds vectors of {manifest.identity.model_id!r} with "
            f"{manifest.identity.dimensions} dimensions"
        )
    if not all(_NAME.fullmatch(segment.name) for segment in manifest.segments):
        raise Damaged("the manifest names a segment that is none of ours")
    return manifest


class _Head(msgspec.Struct):
    format: int
