"""Indexes that are closed after the test, so that no process of theirs goes on."""

from collections.abc import AsyncIterator

import pytest

from stepwell.semantic.index.index import VectorIndex


@pytest.fixture(autouse=True)
async def _closed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Close every index the test makes."""
    made: list[VectorIndex] = []
    make = VectorIndex.__init__

    def note(index: VectorIndex, *args: object, **kwargs: object) -> None:
        made.append(index)
        make(index, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(VectorIndex, "__init__", note)
    yield
    for index in made:
        await index.aclose()
