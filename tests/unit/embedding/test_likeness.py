"""What is measured of two texts, on states made by hand."""

import numpy as np
import pytest

from stepwell.embedding.likeness import FEATURES, Read, likeness

KNOWN = np.eye(8, dtype=np.float32)


def text(*tokens: int, near: dict[int, tuple[int, float]] | None = None) -> Read:
    """Return a text of tokens whose states are at right angles.

    ``near`` turns a token's state towards that of another one, to a cosine.
    """
    states = KNOWN[list(tokens)].copy()
    for row, token in enumerate(tokens):
        if near and token in near:
            other, cosine = near[token]
            states[row] = cosine * KNOWN[other] + np.sqrt(1 - cosine**2) * KNOWN[token]
    ids = np.array(tokens, np.int64)
    vector = states.sum(axis=0)
    vector /= np.linalg.norm(vector)
    return Read(vector, ids, states, ids / 8, ids == 7)


def measured(one: Read, other: Read) -> dict[str, float]:
    return dict(zip(FEATURES, likeness(one, other), strict=True))


def test_equal_texts_differ_in_nothing() -> None:
    found = measured(text(1, 2, 3), text(1, 2, 3))
    assert found["cosine"] == pytest.approx(1)
    same = "same tokens in another order"
    for name in ("farthest", "total distance", "out of order", "not mutual", "other digits", same):
        assert found[name] == pytest.approx(0, abs=1e-6), name
    assert found["larger share of same tokens"] == pytest.approx(1, abs=1e-5)
    assert found["sum of lengths"] == 6


def test_a_token_that_finds_none_near_shows_however_many_agree() -> None:
    found = measured(text(0, 1, 2, 3, 4, 5), text(0, 1, 2, 3, 4, 6))
    assert found["farthest"] == pytest.approx(1)
    assert found["farthest weighed"] == pytest.approx(6 / 8)
    assert found["farthest of other tokens"] == pytest.approx(1)
    assert found["farthest of same tokens"] == pytest.approx(0, abs=1e-6)
    assert found["heaviest other token"] == pytest.approx(6 / 8)
    assert found["lighter heaviest other token"] == pytest.approx(5 / 8)
    assert found["weight of other tokens"] == pytest.approx(11 / 8)


def test_another_word_for_the_same_is_near() -> None:
    found = measured(text(0, 1, 5), text(0, 1, 6, near={6: (5, 0.9)}))
    assert found["farthest"] == pytest.approx(0.1, abs=1e-6)
    assert found["sum of total distances"] == pytest.approx(0.1 * 11 / 8, abs=1e-5)


def test_the_same_tokens_in_another_order() -> None:
    found = measured(text(1, 2, 3), text(3, 2, 1))
    assert found["same tokens in another order"] == 1
    assert found["out of order"] == 1
    assert found["farthest"] == pytest.approx(0, abs=1e-6)


def test_digits_are_compared() -> None:
    assert measured(text(1, 7), text(1, 7))["other digits"] == 0
    assert measured(text(1, 7), text(1, 2))["other digits"] == 1


def test_nothing_depends_on_which_text_comes_first() -> None:
    one, other = text(1, 2, 3, 7), text(3, 5, 1, near={5: (2, 0.7)})
    np.testing.assert_allclose(likeness(one, other), likeness(other, one), atol=1e-12)


def test_two_tokens_with_one_partner_are_not_mutual() -> None:
    found = measured(text(5, 6, near={6: (5, 0.9)}), text(5))
    assert found["not mutual"] == pytest.approx(0.5)
    assert found["difference of lengths"] == 1
