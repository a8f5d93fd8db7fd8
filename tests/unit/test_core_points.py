"""What may go into the index."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from support.points import DIMENSIONS, make_point, make_vectors

from stepwell.core.names import CacheKey
from stepwell.core.vectors import checked_vector

VECTOR = make_vectors(1)[0]


@pytest.mark.parametrize(
    "vector",
    [
        VECTOR[:-1],
        make_vectors(1),
        VECTOR * 1.01,
        np.zeros(DIMENSIONS, np.float32),
        np.full(DIMENSIONS, np.nan, np.float32),
        np.where(np.arange(DIMENSIONS) == 3, np.float32(np.inf), VECTOR),
    ],
)
def test_vectors_that_mean_nothing(vector: npt.NDArray[np.float32]) -> None:
    """Another width, another length, no numbers."""
    with pytest.raises(ValueError, match="vector"):
        checked_vector(vector, DIMENSIONS)


def test_a_vector_of_another_type_is_converted() -> None:
    """And one that does not lie in one piece is copied."""
    wide = np.repeat(VECTOR.astype(np.float64), 2)[::2]
    checked = checked_vector(wide, DIMENSIONS)
    assert checked.dtype == np.float32
    assert checked.flags.c_contiguous
    assert np.array_equal(checked, VECTOR)


def test_identifiers_have_one_length() -> None:
    """Nothing else would fit into a segment."""
    with pytest.raises(ValueError, match="32 bytes"):
        replace(make_point(), key=CacheKey(b"short"))
    with pytest.raises(ValueError, match="32 bytes"):
        replace(make_point(), partition=b"")
