"""Single-flight across the worker processes of one machine.

Who flies a key is decided by the kernel: a worker takes a lock on one byte of a shared file, at an
offset derived from the key. The lock goes when its holder dies, however it dies, and `F_GETLK`
names the holder, so there is nothing to register and nothing to clean up. Who finds the lock taken
reads the reply from the holder, over a Unix socket, as it comes.

Two keys whose offsets are equal (62 bits) would at worst not be shared.
"""

import asyncio
import fcntl
import hashlib
import os
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

import msgspec

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamError, UpstreamTimeout
from stepwell.core.names import CacheKey, Form, Position
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed

_MAX_SOCKET_PATH = 100
"""Of the 108 bytes that `sockaddr_un` has on Linux, 104 on macOS."""

_LENGTH = struct.Struct("!cI")
_MAX_FRAME_BYTES = 64 << 20

_WANTED = b"W"
_HEAD, _DATA, _END, _ERROR, _NOT_HERE, _OUTDATED = b"H", b"D", b"E", b"X", b"N", b"O"


class Followed(Enum):
    """How following another worker's flight went."""

    TO_THE_END = auto()
    """The reply is in the flight, whole."""
    NOT_THERE = auto()
    """The holder has landed, or not yet begun; ask for the lock again."""
    LOST = auto()
    """The holder failed or died, before anything was handed on."""
    OUTDATED = auto()
    """The holder asked before an invalidation, or under another value of a source."""


class _Wanted(msgspec.Struct, array_like=True):
    key: bytes
    last_invalidation: int
    sources: tuple[tuple[str, str], ...]


class _Head(msgspec.Struct, array_like=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    form: Form


class _Failure(msgspec.Struct, array_like=True):
    upstream: str
    message: str
    late: bool


class Neighbours:
    """The other workers that share a data directory.

    One event loop. `claim` and `release` cost a system call each, some 2 us.
    """

    def __init__(self, directory: Path, find: Callable[[CacheKey], Flight | None]) -> None:
        """Join the workers of ``directory``; `start` lets them find this one.

        Args:
            directory: The same for all of them, on a local file system.
            find: Returns this worker's flight for a key.
        """
        self._find = find
        self._sockets = _socket_directory(directory)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._locks = os.open(directory / "flights.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._claims: Counter[int] = Counter()
        """How often each offset is ours. The kernel does not count: it gives a process a lock it
        has again, and takes it away at the first word."""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to answer other workers."""
        self._sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._socket_of(os.getpid())
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108  (left by a dead process that had our number)
        self._server = await asyncio.start_unix_server(self._answer, path)

    async def aclose(self) -> None:
        """Stop answering and let all locks go."""
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                os.unlink(self._socket_of(os.getpid()))  # noqa: PTH108
            self._server = None
        if self._locks >= 0:
            # POSIX: closing the file lets every lock go that this process holds on it.
            os.close(self._locks)
            self._locks = -1

    def claim(self, key: CacheKey) -> int | None:
        """Take the right to fly ``key``; else return the process that has it.

        Returns:
            ``None``: it is ours until `release`. A process number otherwise, 0 if it cannot be
            told (another PID namespace).
        """
        offset = _offset(key)
        while True:
            try:
                fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError):
                holder = _holder(self._locks, offset)
                if holder is not None:
                    return holder
                continue  # It was let go in between.
            self._claims[offset] += 1
            return None

    def release(self, key: CacheKey) -> None:
        """Give up the right to fly ``key``, as often as it was claimed."""
        offset = _offset(key)
        self._claims[offset] -= 1
        if self._claims[offset] > 0:
            return
        del self._claims[offset]
        if self._locks >= 0:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, offset)

    async def follow(
        self, holder: int, key: CacheKey, flight: Flight, *, patience_seconds: float
    ) -> Followed:
        """Write another worker's reply into ``flight``, as it comes.

        One that has not begun after ``patience_seconds`` counts as not there.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket_of(holder))
        except OSError:
            return Followed.NOT_THERE
        try:
            await _send(writer, _WANTED, _wanted(key, flight))
            async with asyncio.timeout(patience_seconds) as patience:
                return await _copy(reader, flight, patience)
        except TimeoutError:
            return Followed.NOT_THERE
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            if flight.head is None:
                return Followed.LOST
            error = UpstreamBroken("The worker that made the call has died.", upstream="")
            flight.finish(Crashed(error))
            return Followed.TO_THE_END
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send another worker the reply it asks for."""
        try:
            _, body = await _receive(reader)
            wanted = msgspec.msgpack.decode(body, type=_Wanted)
            flight = self._find(CacheKey(wanted.key))
            if flight is None:
                await _send(writer, _NOT_HERE, b"")
            elif not _suits(flight, wanted):
                await _send(writer, _OUTDATED, b"")
            else:
                await _send_while_read(flight, reader, writer)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            pass  # It has left, or died; it will not miss the rest.
        finally:
            writer.close()

    def _socket_of(self, process: int) -> str:
        return str(self._sockets / f"{process}.sock")


def _wanted(key: CacheKey, flight: Flight) -> bytes:
    made = flight.made
    sources = tuple((source.name, source.value) for source in made.sources)
    return msgspec.msgpack.encode(_Wanted(key, made.last_invalidation, sources))


def _suits(flight: Flight, wanted: _Wanted) -> bool:
    sources = tuple(SourceValue(name, value) for name, value in wanted.sources)
    return flight.made.suits(Position(wanted.last_invalidation), sources)


async def _receive(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the kind and the body of the next frame."""
    kind, length = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MAX_FRAME_BYTES:
        raise OSError("a frame is too long")
    return kind, await reader.readexactly(length)


async def _copy(
    reader: asyncio.StreamReader, flight: Flight, patience: asyncio.Timeout
) -> Followed:
    while True:
        kind, body = await _receive(reader)
        match kind:
            case b"H":
                patience.reschedule(None)
                head = msgspec.msgpack.decode(body, type=_Head)
                flight.begin(Head(head.status, head.headers, head.form))
            case b"D":
                await flight.extend(body)
            case b"E":
                flight.finish(Landed(None))
                return Followed.TO_THE_END
            case b"X":
                return _fail(msgspec.msgpack.decode(body, type=_Failure), flight)
            case b"O":
                return Followed.OUTDATED
            case _:
                return Followed.NOT_THERE


def _fail(failure: _Failure, flight: Flight) -> Followed:
    if flight.head is None:
        return Followed.LOST
    kind = UpstreamTimeout if failure.late else UpstreamBroken
    flight.finish(Crashed(kind(failure.message, upstream=failure.upstream)))
    return Followed.TO_THE_END


async def _send_while_read(
    flight: Flight, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send a flight until its end, or until the other worker hangs up."""
    sending = asyncio.ensure_future(_send_flight(flight, writer))
    leaving = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send_flight(flight: Flight, writer: asyncio.StreamWriter) -> None:
    reader = flight.join()
    try:
        head = await reader.head()
        shown = _Head(head.status, head.headers, head.form)
        await _send(writer, _HEAD, msgspec.msgpack.encode(shown))
        async for chunk in reader.chunks():
            await _send(writer, _DATA, chunk)
        await _send(writer, _END, b"")
    except UpstreamError as error:
        failure = _Failure(error.upstream, str(error), isinstance(error, UpstreamTimeout))
        await _send(writer, _ERROR, msgspec.msgpack.encode(failure))
    except RequestError:
        await _send(writer, _NOT_HERE, b"")  # The fault of who asked here; the other may do better.
    finally:
        reader.leave()


async def _send(writer: asyncio.StreamWriter, kind: bytes, body: bytes) -> None:
    writer.write(_LENGTH.pack(kind, len(body)) + body)
    await writer.drain()


def _socket_directory(directory: Path) -> Path:
    """Return where the sockets are: in ``directory``, or, if its path is too long, elsewhere."""
    if len(os.fsencode(directory)) + len("/4194304.sock") <= _MAX_SOCKET_PATH:
        return directory
    name = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"stepwell-{os.getuid()}-{name}"


def _offset(key: CacheKey) -> int:
    return int.from_bytes(key[:8], "big") >> 2


# struct flock, as the kernel writes it; Python has the call but not the layout.
_FLOCK = struct.Struct("qqihh" if sys.platform == "darwin" else "hhqqi4x")


def _holder(descriptor: int, offset: int) -> int | None:
    """Return the process that holds the lock at ``offset``; ``None`` if nobody does."""
    if sys.platform == "darwin":
        asked = _FLOCK.pack(offset, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, process, kind, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    else:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(process)
