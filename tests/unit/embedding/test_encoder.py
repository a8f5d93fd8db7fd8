"""The guards, and the length of a vector."""

import numpy as np
import pytest

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.embedding.encoder import Tokens, judge, unit


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (None, Unfit.EMPTY),
        (Tokens([1] * 8, 0), None),
        (Tokens([1] * 9, 0), Unfit.OVER_WINDOW),
        (Tokens([1] * 8, 2), None),
        (Tokens([1] * 8, 3), Unfit.UNKNOWN_TOKENS),
        (Tokens([1] * 9, 9), Unfit.OVER_WINDOW),
    ],
)
def test_guards(tokens: Tokens | None, expected: Unfit | None) -> None:
    assert judge(tokens, window_tokens=8, unknown_share=0.25) is expected


def test_with_no_share_allowed_one_unknown_token_is_too_many() -> None:
    assert judge(Tokens([1] * 200, 1), window_tokens=256, unknown_share=0.0) is Unfit.UNKNOWN_TOKENS


def test_unit_keeps_the_direction() -> None:
    vector = unit(np.array([3, 0, -4], np.float32))
    np.testing.assert_allclose(vector, [0.6, 0, -0.8], rtol=1e-6)
    assert vector.dtype == np.float32


@pytest.mark.parametrize("numbers", [[0, 0], [np.nan, 1], [np.inf, 0], [1e30, 1e30]])
def test_what_has_no_direction_is_an_error(numbers: list[float]) -> None:
    with pytest.raises(EmbeddingError):
        unit(np.array(numbers, np.float32))
