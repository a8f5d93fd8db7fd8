"""The embedder that remembers."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from support.study import AngleEmbedder

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.study.remembering import CALLS_IN_FLIGHT, RememberingEmbedder, VectorFile


async def test_each_text_is_embedded_once() -> None:
    embedder = AngleEmbedder()
    known = RememberingEmbedder(embedder)
    first = await known.all_of(["a@1", "b@2", "a@1"])
    again = await known.all_of(["b@2", "c@3"])
    assert sorted(embedder.texts) == ["a@1", "b@2", "c@3"]
    assert again["b@2"] is first["b@2"]
    assert known.embedded == 3


async def test_a_few_calls_run_at_a_time() -> None:
    embedder = AngleEmbedder()
    await RememberingEmbedder(embedder).all_of([f"{n}@{n}" for n in range(200)])
    assert embedder.most_running == CALLS_IN_FLIGHT


async def test_a_text_the_embedder_fails_at_takes_no_other_with_it() -> None:
    known = RememberingEmbedder(AngleEmbedder())
    found = await known.all_of(["a@1", "broken", "unknown"])
    assert isinstance(found["a@1"], np.ndarray)
    assert isinstance(found["broken"], EmbeddingError)
    assert found["unknown"] is Unfit.UNKNOWN_TOKENS
    assert known.failed == 1


async def test_an_embedder_that_fails_at_everything_is_given_up() -> None:
    """With its own reason, and before every text was tried."""
    embedder = AngleEmbedder()
    known = RememberingEmbedder(embedder)
    with pytest.raises(EmbeddingError, match="nothing can be embedded: out of order"):
        await known.all_of([f"broken {n}" for n in range(10_000)])
    assert len(embedder.calls) < 100


async def test_one_success_is_enough_to_go_on() -> None:
    """Even one of long ago: then texts may be at fault, and the others are embedded."""
    known = RememberingEmbedder(AngleEmbedder())
    await known.all_of(["a@1"])
    found = await known.all_of([*(f"broken {n}" for n in range(100)), "b@2"])
    assert isinstance(found["b@2"], np.ndarray)
    assert (known.failed, str(known.failure)) == (100, "out of order")


async def test_another_run_knows_them_from_the_file(tmp_path: Path) -> None:
    first = RememberingEmbedder(AngleEmbedder(), VectorFile(tmp_path, "angles@1", 2))
    before = await first.all_of(["a@30", "unknown", "broken"])
    first.close()
    embedder = AngleEmbedder()
    second = RememberingEmbedder(embedder, VectorFile(tmp_path, "angles@1", 2))
    after = await second.all_of(["a@30", "unknown", "broken"])
    second.close()
    # What failed is tried again, alone.
    assert embedder.texts == ["broken"]
    assert np.array_equal(after["a@30"], before["a@30"])  # type: ignore[arg-type]
    assert after["unknown"] is Unfit.UNKNOWN_TOKENS


def test_the_file_holds_no_words(tmp_path: Path) -> None:
    file = VectorFile(tmp_path, "angles@1", 2)
    file.put({"a secret": np.array([1.0, 0.0], np.float32)})
    file.close()
    assert b"a secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


async def test_another_model_shares_nothing(tmp_path: Path) -> None:
    file = VectorFile(tmp_path, "angles@1", 2)
    await RememberingEmbedder(AngleEmbedder(), file).all_of(["a@30"])
    file.close()
    other = VectorFile(tmp_path, "angles@2", 2)
    assert other.get(["a@30"]) == {}
    other.close()


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    VectorFile(tmp_path, "angles@1", 2).close()
    (path,) = tmp_path.glob("*.sqlite")
    path.write_bytes(b"nonsense" * 1_000)
    with pytest.raises(ConfigError, match="Remove it"):
        VectorFile(tmp_path, "angles@1", 2)


def test_a_damaged_row_is_no_row(tmp_path: Path) -> None:
    file = VectorFile(tmp_path, "angles@1", 2)
    file.put({"a": np.array([1.0, 0.0], np.float32), "b": Unfit.EMPTY})
    (path,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE vectors SET vector = x'00', unfit = NULL WHERE unfit IS NULL")
        database.execute("UPDATE vectors SET unfit = 'nonsense' WHERE unfit IS NOT NULL")
    database.close()
    assert file.get(["a", "b"]) == {}
    file.close()
