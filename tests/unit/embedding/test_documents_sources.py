"""Reading documents from a directory, and from lines of JSON."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from stepwell.core.errors import ConfigError
from stepwell.embedding.documents.sources import (
    MAX_DOCUMENT_BYTES,
    Given,
    Read,
    Unread,
    read_rows,
    read_source,
)

DEEP = b'{"id": "a", "text": "t", "metadata": %s1%s}' % (b'{"a": ' * 5_000, b"}" * 5_000)


def write(path: Path, content: str | bytes = "Text.") -> None:
    """Write a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def read(path: Path) -> dict[str, str]:
    """Return what was read, by name: a text, or why there is none."""
    return {one.name: told(one) for one in read_source(path)}


def told(one: Read) -> str:
    return one.text if isinstance(one, Given) else f"({one.why})"


def test_text_files_are_read(tmp_path: Path) -> None:
    """By their suffix; those in hidden directories, and of other kinds, are not."""
    for name in ("a.md", "sub/b.TXT", "sub/deep/c.rst", "ä/d.markdown"):
        write(tmp_path / name, f"{name}\r\nnext")
    for name in (".hidden.md", ".git/e.md", "f.png", "README", "g.md~"):
        write(tmp_path / name)
    names = ["a.md", "sub/b.TXT", "sub/deep/c.rst", "ä/d.markdown"]
    assert read(tmp_path) == {name: f"{name}\nnext" for name in names}


def test_the_time_of_a_file_is_its_documents(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    os.utime(tmp_path / "a.md", (5, 1234.5))
    assert [*read_source(tmp_path)] == [Given("a.md", "Text.", "{}", 1234.5)]


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    """Whatever its name says; a mark of byte order is none of a text."""
    write(tmp_path / "binary.txt", b"PK\0\1")
    write(tmp_path / "latin.txt", "é".encode("latin-1"))
    write(tmp_path / "marked.txt", b"\xef\xbb\xbfText.")
    write(tmp_path / "empty.txt", "")
    assert read(tmp_path) == {
        "binary.txt": "(is no text: there is NUL in it)",
        "latin.txt": "(is not UTF-8)",
        "marked.txt": "Text.",
        "empty.txt": "",
    }


def test_links_lead_to_files_and_in_no_circle(tmp_path: Path) -> None:
    """A pipe is not opened: nobody may ever write to it."""
    write(tmp_path / "source/a.md")
    write(tmp_path / "outside.md", "Outside.")
    source = tmp_path / "source"
    (source / "link.md").symlink_to(tmp_path / "outside.md")
    (source / "loop").symlink_to(source)
    (source / "self.md").symlink_to("self.md")
    (source / "broken.md").symlink_to("nowhere")
    os.mkfifo(source / "pipe.md")
    found = read(source)
    assert found.pop("self.md").startswith("(Too many levels")
    assert found == {
        "a.md": "Text.",
        "link.md": "Outside.",
        "broken.md": "(No such file or directory)",
        "pipe.md": "(is no file)",
    }


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    """A sparse one, as they happen."""
    with (tmp_path / "a.md").open("wb") as file:
        file.truncate(MAX_DOCUMENT_BYTES + 1)
    assert read(tmp_path) == {"a.md": f"(is larger than {MAX_DOCUMENT_BYTES} bytes)"}


def test_a_name_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.md")).write_text("Text.")
    assert [one.why for one in read_source(tmp_path) if isinstance(one, Unread)] == ["is not UTF-8"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    write(tmp_path / "sub/a.md")
    (tmp_path / "sub").chmod(0)
    try:
        assert read(tmp_path) == {"sub/": "(Permission denied)"}
    finally:
        (tmp_path / "sub").chmod(0o700)


def test_what_was_not_read_covers_what_may_be_meant() -> None:
    """A directory covers all below it, and no others that begin like it."""
    assert Unread("sub/", "").covers("sub/a.md")
    assert not Unread("sub/", "").covers("submarine.md")
    assert Unread("a.md", "").covers("a.md")
    assert not Unread("a.md", "").covers("a.md.txt")
    assert Unread("", "").covers("anything")


def test_lines_are_read(tmp_path: Path) -> None:
    """Metadata in one order, times in seconds; a line may be empty."""
    write(
        tmp_path / "a.jsonl",
        '{"id": "1", "text": "One.", "other": 5}\n'
        "\n"
        '{"id": "2", "text": "", "metadata": {"b": 1, "a": {"d": 2, "c": 3}}, "updated_at": 7}\n'
        '{"id": "3", "text": "三", "updated_at": "1970-01-01T00:00:09+00:00"}',
    )
    os.utime(tmp_path / "a.jsonl", (5, 1000))
    assert [*read_source(tmp_path / "a.jsonl")] == [
        Given("1", "One.", "{}", 1000.0),
        Given("2", "", '{"a":{"c":3,"d":2},"b":1}', 7.0),
        Given("3", "三", "{}", 9.0),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b"[]", "line 2: Expected `object`, got `array`"),
        (b'{"text": "t"}', "line 2: Object missing required field `id`"),
        (b'{"id": 5, "text": "t"}', "line 2: Expected `str`, got `int` - at `$.id`"),
        (b'{"id": "", "text": "t"}', "line 2: Expected `str` of length >= 1 - at `$.id`"),
        (b'{"id": "a", "text": null}', "line 2: Expected `str`, got `null` - at `$.text`"),
        (b'{"id": "a", "text": "\xff"}', "line 2: Invalid UTF-8 encoded string"),
        (rb'{"id": "a", "text": "\ud800"}', "line 2: "),
        (b'{"id": "a", "text": "t", "metadata": []}', "line 2: Expected `object | null`, got"),
        (b'{"id": "a", "text": "t", "updated_at": "soon"}', "line 2: Invalid RFC3339"),
        (b'{"id": "a", "text": "t", "metadata": {"n": %d}}' % 2**64, "line 2: Integer exceeds"),
        (DEEP, "line 2: maximum recursion depth"),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), f"line 2 is longer than {MAX_DOCUMENT_BYTES} bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_line_that_cannot_be_used_is_told(tmp_path: Path, line: bytes, why: str) -> None:
    """With its number; the others are read."""
    one, other = b'{"id": "1", "text": "One."}', b'{"id": "3", "text": "Three."}'
    write(tmp_path / "a.jsonl", b"\n".join([one, line, other]))
    first, bad, last = read_source(tmp_path / "a.jsonl")
    assert (first.name, last.name) == ("1", "3")
    assert isinstance(bad, Unread)
    assert (bad.name, bad.why[: len(why)]) == ("", why)


def test_a_mark_of_byte_order_is_none_of_the_first_line(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"id": "1", "text": "One."}\r\n')
    assert read(tmp_path / "a.jsonl") == {"1": "One."}


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_time_must_be_one(seconds: float) -> None:
    [row] = read_rows([{"id": "1", "text": "One.", "updated_at": seconds}])
    assert row == Unread("", f"document 1: updated_at is {seconds}; allowed: a finite number")


def test_a_programs_own_objects_are_read() -> None:
    """As lines are."""
    one: dict[str, object] = {"id": "1", "text": "One.", "metadata": {"a": 1}}
    rows: list[Mapping[str, object]] = [one, {"id": 2}, {"id": "3", "text": "x"}]
    assert [*read_rows(rows)] == [
        Given("1", "One.", '{"a":1}', 0.0),
        Unread("", "document 2: Expected `str`, got `int` - at `$.id`"),
        Given("3", "x", "{}", 0.0),
    ]


def test_a_file_that_goes_away_is_told(tmp_path: Path) -> None:
    """Not taken for one without documents."""
    write(tmp_path / "a.jsonl")
    reading = read_source(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        next(reading)


@pytest.mark.parametrize("name", ["nothing", "nothing.jsonl", "file.csv"])
def test_no_source_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is changed."""
    write(tmp_path / "file.csv")
    with pytest.raises(ConfigError, match=name):
        read_source(tmp_path / name)
