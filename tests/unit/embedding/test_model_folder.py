"""A folder of a model is whole, or noticed not to be."""

import os
import time
from pathlib import Path

import pytest

from stepwell.embedding.model_folder import (
    ABANDONED_AFTER_SECONDS,
    MANIFEST,
    Damaged,
    check_folder,
    remove_folder,
    write_folder,
)

FILES = {"model.onnx": b"graph", "weights.bin": bytes(range(256)) * 40}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written = tmp_path / "cache" / "model-1"
    write_folder(written, FILES)
    return written


def test_what_was_written_is_there_and_nothing_else(folder: Path) -> None:
    check_folder(folder)
    assert {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name in FILES
    } == FILES
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_damage_is_noticed(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        with pytest.raises(Damaged):
            check_folder(folder)
    path.unlink()
    with pytest.raises(Damaged):
        check_folder(folder)


def test_no_folder_is_damage(tmp_path: Path) -> None:
    with pytest.raises(Damaged):
        check_folder(tmp_path / "none")


def test_the_first_of_two_writers_wins(folder: Path) -> None:
    write_folder(folder, {"model.onnx": b"another"})
    check_folder(folder)
    assert (folder / "model.onnx").read_bytes() == b"graph"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model-1").write_text("in the way")
    with pytest.raises(OSError, match="Not a directory"):
        write_folder(tmp_path / "cache" / "model-1", FILES)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["model-1"]


def test_removing_leaves_nothing(folder: Path) -> None:
    remove_folder(folder)
    remove_folder(folder)
    assert [*folder.parent.iterdir()] == []


def test_what_killed_writers_left_goes_after_a_while(folder: Path) -> None:
    fresh, old = (folder.parent / f".{folder.name}.{name}" for name in ("fresh", "old"))
    for aside in (fresh, old):
        aside.mkdir()
        (aside / "weights.bin").write_bytes(b"half")
    long_ago = time.time() - ABANDONED_AFTER_SECONDS - 1
    os.utime(old, (long_ago, long_ago))
    remove_folder(folder)
    write_folder(folder, FILES)
    assert fresh.exists()
    assert not old.exists()
