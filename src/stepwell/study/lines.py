"""Files of lines, plain or gzipped: read as a stream, every line with its place."""

import gzip
import io
import os
import sys
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson

from stepwell.core.errors import ConfigError

MAX_LINE_BYTES = 64 << 20
"""A longer line is passed over: no request is that long, and it has to fit into memory."""

STANDARD_INPUT = "-"

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20

_Lines = io.BufferedReader | gzip.GzipFile


class LineFile:
    """One file, read once from start to end. Use it as a context manager."""

    def __init__(self, path: str) -> None:
        """Open a file.

        Args:
            path: Of the file, gzipped or not; ``-`` is standard input.

        Raises:
            ConfigError: It cannot be read, or begins as no text does.
        """
        self.path = path
        self.number = 0
        """Lines read so far."""
        try:
            raw = _open(path)
            self._size = 0 if path == STANDARD_INPUT else Path(path).stat().st_size
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
        self._raw = raw
        self._lines = _unpacked(raw)
        if _is_binary(_beginning(self._lines)):
            self.__exit__()
            raise ConfigError(
                f"{_name(path)} is not text in UTF-8; allowed: lines of text or JSON, gzipped too."
            )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._lines.close()
        self._raw.close()

    def __iter__(self) -> Iterator[bytes | None]:
        """Yield each line without its end; ``None`` for one longer than `MAX_LINE_BYTES`.

        Raises:
            ConfigError: The file breaks off, or is damaged; what came before was yielded.
        """
        try:
            while line := self._lines.readline(MAX_LINE_BYTES):
                self.number += 1
                if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                    self._pass_over()
                    yield None
                else:
                    yield line.rstrip(b"\r\n")
        except (OSError, EOFError, zlib.error) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise ConfigError(
                f"{self.path} cannot be read after line {self.number}: {reason or error}."
            ) from error

    def _pass_over(self) -> None:
        while (rest := self._lines.readline(_BLOCK)) and not rest.endswith(b"\n"):
            pass

    @property
    def share(self) -> float | None:
        """How much of the file has been read, from 0 to 1; ``None`` where its size is unknown."""
        if not self._size:
            return None
        return min(1.0, self._raw.tell() / self._size)

    @property
    def place(self) -> str:
        """Where the last line stands, for messages."""
        return f"{_name(self.path)} line {self.number}"


def rows(file: LineFile) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one a line; blank lines are passed over.

    Raises:
        ConfigError: A line is no JSON object, or the file cannot be read.
    """
    for line in file:
        if line is not None and not line.strip():
            continue
        row = None if line is None else _parsed(line, file)
        if not isinstance(row, dict):
            raise ConfigError(f"{file.place}: a JSON object is needed, such as an object per line.")
        yield row


def _parsed(line: bytes, file: LineFile) -> object:
    # A byte order mark is how some programs say UTF-8.
    try:
        return orjson.loads(line.removeprefix(b"\xef\xbb\xbf") if file.number == 1 else line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{file.place}: not JSON ({error}).") from error


def _name(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def _beginning(lines: _Lines) -> bytes:
    """Return some kilobytes without moving on; nothing, if it is damaged: reading will say how."""
    try:
        return lines.peek(1)
    except (OSError, EOFError, zlib.error):
        return b""


def _is_binary(beginning: bytes) -> bool:
    """Return whether this is no text, so that words found in it would be found by chance.

    One line that is not UTF-8 is damage, and passed over by who reads it. All of them are not.
    """
    return b"\0" in beginning or (
        bool(beginning) and not any(map(_is_utf8, beginning.splitlines()))
    )


def _is_utf8(line: bytes) -> bool:
    try:
        getincrementaldecoder("utf-8")().decode(line)  # its last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _open(path: str) -> io.BufferedReader:
    # A stream of its own, so that closing it leaves standard input open.
    source = os.dup(sys.stdin.fileno()) if path == STANDARD_INPUT else path
    return open(source, "rb")  # noqa: PTH123  (a descriptor; closed with the `LineFile`)


def _unpacked(raw: io.BufferedReader) -> _Lines:
    """Return what is in ``raw``, unpacked if it is gzipped. Told by its bytes, not its name."""
    if raw.peek(2)[:2] == _GZIP_MAGIC:
        return gzip.GzipFile(fileobj=raw)
    return raw
