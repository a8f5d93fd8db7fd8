"""Where documents come from: a directory of text files, or a file with a JSON object a line.

All functions block, on files; they are generators, so that a source of any size can be read.
"""

import codecs
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import orjson

from stepwell.core.errors import ConfigError

SUFFIXES = frozenset({".markdown", ".md", ".rst", ".txt"})
"""Of files that are read; in small or capital letters."""

MAX_DOCUMENT_BYTES = 16 << 20
"""A document is put in by one transaction."""


@dataclass(frozen=True, slots=True)
class Given:
    """A document as its source has it."""

    name: str
    """Its path in the directory, with ``/``; or its id."""
    text: str
    metadata: str
    """A JSON object, keys in order."""
    updated_at: float
    """Seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read. What is known of it stays as it is."""

    name: str
    """A document; a directory, ending in ``/``; or empty: it may have been any document."""
    why: str

    def covers(self, name: str) -> bool:
        """Return whether the document of this name may be meant."""
        return name == self.name or (self.name[-1:] in {"", "/"} and name.startswith(self.name))


Read = Given | Unread


def read_source(path: Path) -> Iterator[Read]:
    """Yield the documents of a directory, or of a file of lines.

    Raises:
        ConfigError: There is neither, or it cannot be read.
    """
    try:
        if path.is_dir():
            return read_directory(path)
        if path.suffix == ".jsonl" and path.is_file():
            return read_lines(path)
        why = "is not there" if not path.exists() else "is neither a directory nor a .jsonl file"
    except OSError as error:
        why = f"cannot be read ({_why(error)})"
    raise ConfigError(f"{path} {why}; give a directory, or a file with a JSON object a line.")


def read_directory(root: Path) -> Iterator[Read]:
    """Yield the text files below ``root``, by `SUFFIXES`.

    Hidden files and directories are left out. Linked files are read, linked directories are not:
    so no loop is ever entered. What is no UTF-8, or has NUL in it, is not read.
    """
    unread: list[Unread] = []

    def note(error: OSError) -> None:
        name = os.path.relpath(error.filename, root)
        unread.append(Unread("" if name == "." else f"{name}/", _why(error)))

    for folder, folders, files in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from unread
        unread.clear()
        for file in sorted(files):
            path = Path(folder, file)
            if not file.startswith(".") and path.suffix.lower() in SUFFIXES:
                yield _read_file(path, path.relative_to(root).as_posix())
    yield from unread


def _read_file(path: Path, name: str) -> Read:
    try:
        return _given_file(path, name)
    except OSError as error:
        return Unread(name, _why(error))
    except UnicodeError:
        return Unread(name, "is not UTF-8")
    except ValueError as error:
        return Unread(name, str(error))


def _given_file(path: Path, name: str) -> Given:
    """Return a file's document. Raises `OSError`, or `ValueError` for what is no text."""
    name.encode()
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("is no file")  # Opening a pipe would wait for a writer.
    if found.st_size > MAX_DOCUMENT_BYTES:
        raise ValueError(f"is larger than {MAX_DOCUMENT_BYTES} bytes")
    text = path.read_text(encoding="utf-8-sig")
    if "\0" in text:
        raise ValueError("is no text: there is NUL in it")
    return Given(name, text, "{}", found.st_mtime)


def read_lines(path: Path) -> Iterator[Read]:
    """Yield the documents of a file with ``{"id", "text", "metadata", "updated_at"}`` a line.

    ``id`` and ``text`` must be there. ``updated_at`` is in seconds since the Unix epoch, or a time
    by RFC 3339; by default it is the file's. Other fields count as nothing.

    Raises:
        ConfigError: The file cannot be read, or not to its end.
    """
    try:
        with path.open("rb") as file:
            changed_at = os.fstat(file.fileno()).st_mtime
            if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
                file.seek(0)
            for number, line in enumerate(_lines(file), start=1):
                if line.strip():
                    yield _read_line(line, f"line {number}", changed_at)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {_why(error)}.") from error


def read_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Read]:
    """Yield the documents of a program's own objects, as `read_lines` has them.

    One that cannot be used is `Unread`; by default ``updated_at`` is 0.
    """
    for number, row in enumerate(rows, start=1):
        try:
            yield _given(msgspec.convert(row, _Line), 0.0)
        except _NO_DOCUMENT as error:
            yield Unread("", f"document {number}: {error}")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one that is too long, only so much that it is found to be."""
    while line := file.readline(MAX_DOCUMENT_BYTES + 1):
        yield line
        while not line.endswith(b"\n") and line:
            line = file.readline(MAX_DOCUMENT_BYTES)


class _Line(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    text: str
    metadata: dict[str, Any] | None = None
    updated_at: float | datetime | None = None


_decode = msgspec.json.Decoder(_Line).decode

# Metadata may be nested too deeply, and have numbers of more than 64 bits.
_NO_DOCUMENT = (msgspec.MsgspecError, ValueError, orjson.JSONEncodeError, RecursionError)


def _read_line(line: bytes, place: str, changed_at: float) -> Read:
    if len(line) > MAX_DOCUMENT_BYTES:
        return Unread("", f"{place} is longer than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return _given(_decode(line), changed_at)
    except _NO_DOCUMENT as error:
        return Unread("", f"{place}: {error}")


def _given(row: _Line, changed_at: float) -> Given:
    """Return a line's document. Raises one of `_NO_DOCUMENT`."""
    metadata = orjson.dumps(row.metadata or {}, option=orjson.OPT_SORT_KEYS).decode()
    return Given(row.id, row.text, metadata, _seconds(row.updated_at, changed_at))


def _seconds(told: float | datetime | None, otherwise: float) -> float:
    match told:
        case None:
            return otherwise
        case datetime():
            return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
        case _:
            if not math.isfinite(told):
                raise ValueError(f"updated_at is {told}; allowed: a finite number")
            return told


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
