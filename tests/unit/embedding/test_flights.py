"""Identical texts are computed once, and nobody waits longer than the budget."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.encoder import Row
from stepwell.embedding.flights import Flights, Settle, embeddings
from stepwell.embedding.text import plainly_unfit

X = np.array([1, 0], np.float32)
Y = np.array([0, 1], np.float32)


class Computing:
    """A model that answers when the test says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.settle: Settle[str, Row]

    def __call__(self, texts: Sequence[str], settle: Settle[str, Row]) -> None:
        self.started += texts
        self.settle = settle


class Case:
    def __init__(self, budget: float | None = None, recent: int = 8, bound: int = 16) -> None:
        self.model = Computing()
        self.flights = Flights[str, Row](
            self.model, budget_seconds=budget, recent=recent, max_in_flight=bound
        )

    async def embed(self, *texts: str) -> Embeddings:
        return await embeddings(self.flights, texts, lambda text: plainly_unfit(text, 8), 2)

    async def asked(self, *texts: str) -> asyncio.Task[Embeddings]:
        """Ask, and return once the computation has been started."""
        task = asyncio.create_task(self.embed(*texts))
        await asyncio.sleep(0)
        return task


async def test_rows_come_in_the_order_of_the_texts() -> None:
    case = Case()
    asked = await case.asked("b", "", "a", "b", "x" * 1000, "?")
    case.model.settle("a", X)
    case.model.settle("b", Y)
    case.model.settle("?", Unfit.UNKNOWN_TOKENS)
    got = await asked
    np.testing.assert_array_equal(got.vectors, [Y, [0, 0], X, Y, [0, 0], [0, 0]])
    assert got.vectors.dtype == np.float32
    assert got.unfit == (
        None, Unfit.EMPTY, None, None, Unfit.OVER_WINDOW, Unfit.UNKNOWN_TOKENS
    )  # fmt: skip
    assert case.model.started == ["b", "a", "?"]


async def test_no_texts_no_work() -> None:
    case = Case()
    got = await case.embed()
    assert got.vectors.shape == (0, 2)
    assert case.model.started == []


async def test_identical_texts_in_flight_are_computed_once() -> None:
    case = Case()
    asked = [await case.asked("a") for _ in range(100)]
    assert case.model.started == ["a"]
    case.model.settle("a", X)
    for task in asked:
        np.testing.assert_array_equal((await task).vectors, [X])


async def test_recent_texts_are_remembered_and_the_oldest_forgotten() -> None:
    case = Case(recent=2)
    for text in ("a", "b"):
        asked = await case.asked(text)
        case.model.settle(text, X)
        await asked
    await case.embed("a")  # used: b is now the oldest
    asked = await case.asked("c")
    case.model.settle("c", Y)
    await asked
    await case.embed("a", "c")
    assert case.model.started == ["a", "b", "c"]
    await case.asked("b")
    assert case.model.started == ["a", "b", "c", "b"]


async def test_what_a_caller_does_to_its_vectors_is_its_own_affair() -> None:
    case = Case()
    asked = await case.asked("a")
    case.model.settle("a", X.copy())
    (await asked).vectors[:] = 7
    np.testing.assert_array_equal((await case.embed("a")).vectors, [X])


async def test_too_late_is_a_timeout_and_the_result_is_found_later() -> None:
    case = Case(budget=0.0)
    with pytest.raises(EmbeddingTimeout):
        await case.embed("a")
    case.model.settle("a", X)
    np.testing.assert_array_equal((await case.embed("a")).vectors, [X])
    assert case.model.started == ["a"]


async def test_one_who_gives_up_does_not_take_the_others_along() -> None:
    case = Case()
    impatient, patient = await case.asked("a"), await case.asked("a")
    impatient.cancel()
    await asyncio.wait([impatient])
    case.model.settle("a", X)
    np.testing.assert_array_equal((await patient).vectors, [X])


async def test_an_error_reaches_all_who_wait_and_is_not_remembered() -> None:
    case = Case()
    asked = [await case.asked("a") for _ in range(2)]
    case.model.settle("a", EmbeddingError("out of order"))
    for task in asked:
        with pytest.raises(EmbeddingError, match="out of order"):
            await task
    again = await case.asked("a")
    case.model.settle("a", X)
    await again


async def test_a_model_that_fails_at_once() -> None:
    """It settles while it is being started."""

    def start(texts: Sequence[str], settle: Settle[str, Row]) -> None:
        for text in texts:
            settle(text, EmbeddingError("not there"))

    flights = Flights[str, Row](start, budget_seconds=None)
    with pytest.raises(EmbeddingError, match="not there"):
        await flights.of(["a", "b"])


async def test_beyond_the_bound_texts_fail_at_once() -> None:
    case = Case(bound=2)
    asked = await case.asked("a", "b")
    with pytest.raises(EmbeddingError, match="more than 2"):
        await case.embed("c")
    joined = await case.asked("a")
    rows: dict[str, Row] = {"a": X, "b": Y}
    for text, row in rows.items():
        case.model.settle(text, row)
    await asked
    await joined
    assert case.model.started == ["a", "b"]


async def test_fail_all_settles_whatever_is_in_flight() -> None:
    case = Case()
    asked = await case.asked("a")
    case.flights.fail_all(EmbeddingError("closed"))
    with pytest.raises(EmbeddingError, match="closed"):
        await asked
    case.model.settle("a", X)  # too late: does nothing
