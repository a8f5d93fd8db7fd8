"""The index that a worker searches itself, behind the port."""

import threading
from pathlib import Path

import pytest
from support.points import make_id, make_index, make_point, make_vectors

from stepwell.semantic.index import own
from stepwell.semantic.index.own import OwnIndex
from stepwell.testing.clock import HandClock


async def test_a_long_search_does_not_keep_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on a thread, and finds the same."""
    inner, threads = make_index(tmp_path, HandClock()), []
    search = inner.search

    def watched(*arguments: object) -> object:
        threads.append(threading.get_ident())
        return search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(inner, "search", watched)
    index, vectors = OwnIndex(inner), make_vectors(2)
    for number, vector in enumerate(vectors):
        await index.add(make_point(f"point {number}"), vector)
    short = await index.search(make_id("partition"), vectors[0], 2, 0.0)
    monkeypatch.setattr(own, "MAX_ROWS_ON_LOOP", 1)
    assert await index.search(make_id("partition"), vectors[0], 2, 0.0) == short
    assert len(short) == 2
    assert [thread == threading.get_ident() for thread in threads] == [True, False]
