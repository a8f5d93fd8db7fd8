"""Files that are there whole, or not at all."""

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stepwell.core.errors import ConfigError

_NEW_FILE_MODE = 0o666


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of ``path`` when the block ends well.

    Whoever reads ``path`` sees the old file or the new one; after an error it is the old one.
    What is no plain file, such as a pipe, is written as it is, and so are this process's own
    streams (``/dev/stdout``), wherever they have been led: behind what is there already.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        descriptor = _own_descriptor(path)
        if descriptor is not None:
            # Where it stands, not at the beginning of the file that it may be.
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                yield stream
            return
        if path.exists() and not path.is_file():
            with path.open("wb") as plain:
                yield plain
            return
        with _aside(path) as file:
            yield file
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def check_writable(path: Path) -> None:
    """Find out whether `written_aside` could write ``path`` now. Changes nothing there.

    Raises:
        ConfigError: It could not.
    """
    try:
        descriptor = _own_descriptor(path)
        if descriptor is not None:
            os.fstat(descriptor)
        elif path.exists() and not path.is_file():
            # Not opened: a pipe would wait for its reader.
            _check_special(path)
        else:
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _check_special(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _aside(path: Path) -> Iterator[BinaryIO]:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, _NEW_FILE_MODE & ~_umask())  # noqa: PTH101
        os.replace(name, path.resolve())  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


_OWN = re.compile(r"/dev/(?:stdin|stdout|stderr|fd/(\d+))|/proc/self/fd/(\d+)")
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def _own_descriptor(path: Path) -> int | None:
    """Return which open file of this process ``path`` names; ``None``: it names none."""
    found = _OWN.fullmatch(str(path))
    if found is None:
        return None
    number = found[1] or found[2]
    return _STREAMS[found[0]] if number is None else int(number)


def _umask() -> int:
    """Return the process's mask: `mkstemp` makes files that only their owner can read."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
