"""Reading what the directory holds now, and opening what is new in it; done on a thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepwell.semantic.index.folder import Folder, Stamp
from stepwell.semantic.index.manifest import Damaged, Manifest, SegmentRecord
from stepwell.semantic.index.segment import Segment, noting_damage, open_segment
from stepwell.semantic.index.segment_files import read_dead

_TRIES = 5


@dataclass(slots=True)
class Adoption:
    """What a worker's view becomes."""

    stamp: Stamp | None
    manifest: Manifest | None
    """``None`` if there is none, or none of use."""
    problem: str | None = None
    """Why the manifest is of no use."""
    kept: list[Segment] = field(default_factory=list)
    """Held before, and still named."""
    fresh: list[Segment] = field(default_factory=list)
    dead: dict[str, tuple[SegmentRecord, npt.NDArray[np.bool_]]] = field(default_factory=dict)
    """For kept ones whose dead rows have become more: the new record, and the rows."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Segments that are not what was written, and why."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Segments that could not be opened this time, and why."""


def load(folder: Folder, held: Mapping[str, Segment], *, nprobe: int) -> Adoption:
    """Read the manifest and open the segments that are not ``held`` yet.

    Costs a read of every file it opens. While it opens them, another worker may publish and
    delete: then it begins again.

    Raises:
        OSError: The directory cannot be read.
    """
    for _ in range(_TRIES):
        adoption = _load(folder, held, nprobe)
        if not (adoption.damaged or adoption.unavailable) or folder.stamp() == adoption.stamp:
            break
    _carry_over(held, adoption)
    return adoption


def _load(folder: Folder, held: Mapping[str, Segment], nprobe: int) -> Adoption:
    stamp = folder.stamp()
    try:
        adoption = Adoption(stamp, folder.manifest())
    except Damaged as error:
        return Adoption(stamp, None, problem=str(error))
    if adoption.manifest is not None:
        for record in adoption.manifest.segments:
            try:
                _take(folder, record, held.get(record.name), adoption, nprobe)
            except Damaged as error:
                adoption.damaged[record.name] = str(error)
            except OSError as error:
                adoption.unavailable[record.name] = str(error)
    return adoption


def _take(
    folder: Folder, record: SegmentRecord, held: Segment | None, adoption: Adoption, nprobe: int
) -> None:
    directory = folder.segment(record.name)
    if held is None:
        dimensions = folder.identity.dimensions
        adoption.fresh.append(open_segment(directory, record, dimensions=dimensions, nprobe=nprobe))
        return
    if record.dead is not None and record.dead != held.record.dead:
        adoption.dead[record.name] = record, read_dead(directory, record)
    adoption.kept.append(held)


def _carry_over(held: Mapping[str, Segment], adoption: Adoption) -> None:
    """Remove from fresh segments what this worker had removed from those they replace."""
    kept = {segment.name for segment in adoption.kept}
    for old in held.values():
        if old.name in kept or old.broken is not None:
            continue
        for segment in adoption.fresh:
            with noting_damage(old):
                old.remove_copies(segment)
