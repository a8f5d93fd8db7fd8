"""Inverted files: the rows of one large partition, sorted into lists by nearness (faiss).

IVF of Jégou, Douze and Schmid, "Product quantization for nearest neighbor search" (2011), with
vectors in half precision instead of product codes.
"""

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from stepwell.core.vectors import Vector, Vectors

_ADDED_AT_ONCE = 16_384
_TRAINING_ROWS_PER_LIST = 64
_TRAINING_ROUNDS = 10


def build(path: Path, vectors: Vectors, first_row: int) -> None:
    """Write the inverted file of ``vectors`` to ``path``. Takes seconds, and 2 bytes a number.

    There are about ``2 * sqrt(n)`` lists. Vectors are coded as they are, not as residuals: cosines
    are off by up to 5e-5 either way, candidates are scored again, and a search is 10 % faster.

    Args:
        path: Must not exist.
        vectors: Shape ``(n, dimensions)``, of unit length; may be mapped.
        first_row: Number of the first vector's row in the segment.

    Raises:
        OSError: It cannot be written, such as for a full disk.
    """
    rows, dimensions = vectors.shape
    lists = max(1, int(2 * sqrt(rows)))
    quantizer = faiss.IndexFlatIP(dimensions)
    index = faiss.IndexIVFScalarQuantizer(
        quantizer,
        dimensions,
        lists,
        faiss.ScalarQuantizer.QT_fp16,
        faiss.METRIC_INNER_PRODUCT,
        False,  # noqa: FBT003 - by_residual; faiss takes it by position only
    )
    index.cp.niter = _TRAINING_ROUNDS
    index.cp.spherical = True
    index.cp.min_points_per_centroid = 1  # No warnings: the sample is as large as it should be.
    sample = np.random.default_rng(rows).choice(
        rows, min(rows, lists * _TRAINING_ROWS_PER_LIST), replace=False
    )
    index.train(vectors[np.sort(sample)])
    for start in range(0, rows, _ADDED_AT_ONCE):
        stop = min(rows, start + _ADDED_AT_ONCE)
        index.add_with_ids(vectors[start:stop], np.arange(first_row + start, first_row + stop))
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # What faiss makes of a full disk.
        raise OSError(str(error)) from error


@dataclass(frozen=True, slots=True)
class InvertedFile:
    """A mapped inverted file. Safe for searches on several threads."""

    index: faiss.IndexIVFScalarQuantizer
    everything: faiss.SearchParametersIVF
    selected: faiss.SearchParametersIVF
    """Leaves out rows whose bit in the segment's bitmap is not set."""

    def nearest(self, vector: Vector, count: int, *, whole: bool) -> list[int]:
        """Return up to ``count`` rows of the segment near ``vector``; -1 for none.

        Args:
            vector: Shape ``(dimensions,)``.
            count: How many.
            whole: Whether every row of the segment may match.
        """
        params = self.everything if whole else self.selected
        _, rows = self.index.search(vector.reshape(1, -1), count, params=params)
        found: list[int] = rows[0].tolist()
        return found


def map_file(
    descriptor: int, bitmap: npt.NDArray[np.uint8], *, dimensions: int, nprobe: int
) -> InvertedFile:
    """Map a file that `build` wrote and whose checksum has been verified.

    Args:
        descriptor: The open file. It is mapped through its descriptor, so it is the file that was
            verified, whatever its name means by now.
        bitmap: One bit a row of the segment; searches see what is written to it later.
        dimensions: What the file must have.
        nprobe: Lists that a search reads.

    Raises:
        RuntimeError: It is none.
    """
    index = faiss.read_index(f"/proc/self/fd/{descriptor}", faiss.IO_FLAG_MMAP)
    if not isinstance(index, faiss.IndexIVFScalarQuantizer) or index.d != dimensions:
        raise RuntimeError("not an inverted file of this index")
    # faiss's own stubs know the C++ signatures only.
    selector = faiss.IDSelectorBitmap(bitmap)  # type: ignore[arg-type, call-arg]
    return InvertedFile(
        index,
        faiss.SearchParametersIVF(nprobe=nprobe),  # type: ignore[call-arg]
        faiss.SearchParametersIVF(nprobe=nprobe, sel=selector),  # type: ignore[call-arg]
    )
