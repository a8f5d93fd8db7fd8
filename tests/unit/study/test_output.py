"""Files that are there whole, or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell.core.errors import ConfigError
from stepwell.study.output import check_writable, written_aside


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    with written_aside(out) as file:
        file.write(b"new")
        file.flush()
        assert out.read_bytes() == b"old"
    assert out.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [out]


def test_after_an_error_nothing_has_changed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), written_aside(out) as file:
        file.write(b"new" * (1 // 0))
    assert out.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [out]


def test_others_may_read_it_as_any_new_file(tmp_path: Path) -> None:
    plain, out = tmp_path / "plain", tmp_path / "out"
    plain.touch()
    with written_aside(out):
        pass
    assert out.stat().st_mode == plain.stat().st_mode


def test_a_link_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    with written_aside(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"), written_aside(tmp_path / "a" / "b"):
        pass


def test_what_is_no_file_is_written_as_it_is() -> None:
    with written_aside(Path("/dev/null")) as file:
        file.write(b"gone")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_own_stream_is_written_where_it_stands(tmp_path: Path, name: str) -> None:
    """Also if it was led to a file: what is there already stays, what follows comes behind."""
    script = (
        "import sys; from pathlib import Path; from stepwell.study.output import written_aside\n"
        f"with written_aside(Path({name!r})) as file: file.write(b'rows\\n')"
    )
    out = tmp_path / "out"
    with out.open("wb", buffering=0) as file:
        file.write(b"before\n")
        subprocess.run([sys.executable, "-c", script], stdout=file, check=True)
        file.write(b"after\n")
    assert out.read_bytes() == b"before\nrows\nafter\n"


def test_a_stream_that_is_not_open() -> None:
    with pytest.raises(ConfigError, match="cannot be written"), written_aside(Path("/dev/fd/999")):
        pass


@pytest.mark.parametrize("name", ["old", "new", "link"])
def test_what_can_be_written_is_not_touched(tmp_path: Path, name: str) -> None:
    """Neither a file that is there, nor one that is not."""
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("nothing yet")
    check_writable(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "a" / "b", tmp_path / "file" / "b", Path("/dev/fd/999")):
        with pytest.raises(ConfigError, match=f"{path} cannot be written"):
            check_writable(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Its reader may come when there is something to read."""
    os.mkfifo(tmp_path / "pipe")
    check_writable(tmp_path / "pipe")
    check_writable(Path("/dev/null"))
