"""Files of lines, as strangers write them."""

import gzip
from pathlib import Path

import pytest

from stepwell.core.errors import ConfigError
from stepwell.study import lines
from stepwell.study.lines import LineFile, rows


def read(path: Path) -> list[bytes | None]:
    with LineFile(str(path)) as file:
        return list(file)


def test_lines_without_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\r\ntwo\n\nlast")
    assert read(path) == [b"one", b"two", b"", b"last"]


def test_gzip_is_told_by_its_bytes(tmp_path: Path) -> None:
    """Whatever the file is called."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read(path) == [b"one", b"two"]


def test_a_broken_gzip_gives_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    whole = gzip.compress(b"".join(b"line %d\n" % n for n in range(50_000)))
    path.write_bytes(whole[: len(whole) // 2])
    got: list[bytes | None] = []
    with LineFile(str(path)) as file, pytest.raises(ConfigError, match=r"log\.gz .*after line"):
        got.extend(file)
    assert got[:2] == [b"line 0", b"line 1"]


def test_a_line_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    path = tmp_path / "log"
    path.write_bytes(b"short\n" + b"x" * 100 + b"\nafter\n")
    assert read(path) == [b"short", None, b"after"]


@pytest.mark.parametrize("bad", [b"{", b"[1]", b"1", b'"a"', b"\xff", b'{"a": NaN}'])
def test_rows_name_the_place_of_what_is_no_row(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b'{"a": 1}\n\n' + bad + b"\n")
    with LineFile(str(path)) as file, pytest.raises(ConfigError, match=r"pairs\.jsonl line 3"):
        list(rows(file))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        LineFile(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="directory"):
        LineFile(str(tmp_path))


def test_the_share_grows_to_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 999 + b"\n" + b"y\n" * 100_000)
    with LineFile(str(path)) as file:
        shares = [file.share for _ in file]
    assert all(share is not None for share in shares)
    assert sorted(shares, key=lambda share: share or 0) == shares
    assert shares[-1] == 1.0
