"""Replies of providers that do not do as asked."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.embedding_provider import model

from stepwell.core.vectors import Unfit
from stepwell.embedding.cache.provider import BadReply, Input, NoVector, Reply
from stepwell.embedding.cache.replies import checked_rows, shares

GOOD = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def check(reply: Reply, count: int = 3, width: int | None = None, *, unit: bool = False) -> Any:
    return checked_rows(reply, count, width=width, unit=unit)


@given(st.permutations(range(6)))
def test_any_order_is_put_right(order: list[int]) -> None:
    rows = [model(str(index)) for index in order]
    for place, row in enumerate(check(Reply(rows, order), 6)):
        assert np.array_equal(row, model(str(place)))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(GOOD[:2], [0, 1]), "2 vectors to 3 texts"),
        (Reply([*GOOD, [7.0, 8.0]]), "4 vectors to 3 texts"),
        (Reply([]), "0 vectors to 3 texts"),
        (Reply(GOOD, [0, 1, 1]), "not 0 to 2, each once"),
        (Reply(GOOD, [1, 2, 3]), "not 0 to 2, each once"),
        (Reply(GOOD, [0, 1]), "not 0 to 2, each once"),
        (Reply(GOOD, [0, 1, 2, 3]), "not 0 to 2, each once"),
        (Reply([[1.0, 2.0], [3.0], [5.0, 6.0]]), r"\[1, 2\] numbers"),
        (Reply([[], [], []]), r"\[0\] numbers"),
        (Reply([np.ones((1, 1))] * 3), "2 dimensions"),
        (Reply([["a"], ["b"], ["c"]]), "no vector"),  # type: ignore[list-item]
        (Reply([None, None, None]), "."),  # type: ignore[list-item]
    ],
)
def test_wrong_replies_are_refused(reply: Reply, message: str) -> None:
    with pytest.raises(BadReply, match=message):
        check(reply)


def test_another_width_is_refused() -> None:
    with pytest.raises(BadReply, match=r"\[2\] numbers; expected: 3"):
        check(Reply(GOOD), width=3)


@pytest.mark.parametrize(
    "row",
    [
        [float("nan"), 1.0],
        [float("inf"), 1.0],
        [float("inf"), float("-inf")],
        [1e300, 1.0],
        [0.0, 0.0],
        [1e-30, 0.0],
    ],
)
def test_one_bad_row_spoils_no_other(row: list[float]) -> None:
    first, bad, last = check(Reply([GOOD[0], row, GOOD[2]]))
    assert isinstance(bad, BadReply)
    assert np.array_equal(first, GOOD[0])
    assert np.array_equal(last, GOOD[2])


def test_unit_length_is_made() -> None:
    (row,) = check(Reply([[3.0, 4.0]]), 1, unit=True)
    assert np.allclose(row, [0.6, 0.8])


def test_unfit_text_has_no_vector_and_no_width() -> None:
    rows = check(Reply([GOOD[0], Unfit.EMPTY, GOOD[2]]), width=2)
    assert rows[1] == NoVector(Unfit.EMPTY)


@given(
    st.integers(0, 10_000),
    st.lists(st.one_of(st.text(max_size=20), st.lists(st.integers(0, 9)).map(tuple)), min_size=1),
)
def test_no_token_is_lost(total: int, inputs: list[Input]) -> None:
    parts = shares(total, inputs)
    assert sum(parts) == total
    assert all(part >= 0 for part in parts)


def test_tokens_go_by_length() -> None:
    assert shares(10, ["a" * 30, "a" * 10, "a" * 10]) == [6, 2, 2]
    assert shares(5, ["a", "a"]) == [3, 2]
    assert shares(3, ["", ""]) == [2, 1]
