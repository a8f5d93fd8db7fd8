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
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from stepwell.core.names import CacheKey
from stepwell.pipeline.circle import Followed, Lead, Leader
from stepwell.pipeline.flight import Flight
from stepwell.pipeline.frames import Frame, Kind, Torn, Wanted, hand_over, take_over, wanted_for
from stepwell.pipeline.leg import BorrowedLeg

_MAX_SOCKET_PATH = 100
"""Of the 108 bytes that `sockaddr_un` has on Linux, 104 on macOS."""

_LENGTH = struct.Struct("!I")
_MAX_FRAME_BYTES = 64 << 20


class Neighbours:
    """The other workers that share a data directory.

    One event loop. To claim and to release cost a system call each, some 2 us.
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

    async def claim(self, key: CacheKey) -> Lead | Leader:
        """As `Circle.claim`."""
        holder = self._lock(key)
        if holder is None:
            return Lead(partial(self._release, key))
        return SocketLeader(self._socket_of(holder), key)

    def _lock(self, key: CacheKey) -> int | None:
        """Take the lock of ``key``; else return the process that has it.

        0 if that cannot be told (another PID namespace).
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

    def _release(self, key: CacheKey) -> None:
        """Let the lock of ``key`` go, as often as it was taken."""
        offset = _offset(key)
        self._claims[offset] -= 1
        if self._claims[offset] > 0:
            return
        del self._claims[offset]
        if self._locks >= 0:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, offset)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send another worker the reply it asks for, unless it hangs up."""
        try:
            wanted = msgspec.msgpack.decode(await _receive_bytes(reader), type=Wanted)
            flight = self._find(CacheKey(wanted.key))
            sending = asyncio.ensure_future(hand_over(flight, wanted, partial(_send, writer)))
            leaving = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            pass  # It has left, or died; it will not miss the rest.
        finally:
            writer.close()

    def _socket_of(self, process: int) -> str:
        return str(self._sockets / f"{process}.sock")


@dataclass(frozen=True, slots=True)
class SocketLeader:
    """Another worker that makes a call."""

    socket: str
    key: CacheKey

    async def follow(self, leg: BorrowedLeg, *, patience_seconds: float) -> Followed:
        """As `Leader.follow`."""
        try:
            reader, writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            return Followed.NOT_THERE
        try:
            wanted = msgspec.msgpack.encode(wanted_for(self.key, leg.made))
            writer.write(_LENGTH.pack(len(wanted)) + wanted)
            return await take_over(_frames(reader, patience_seconds), leg)
        except TimeoutError:
            return Followed.NOT_THERE
        finally:
            writer.close()


async def _frames(reader: asyncio.StreamReader, patience_seconds: float) -> AsyncGenerator[Frame]:
    """Yield what a worker sends. Raises `TimeoutError` if it does not begin in time."""
    try:
        async with asyncio.timeout(patience_seconds):
            frame = await _receive_bytes(reader)
        while True:
            yield Kind(chr(frame[0])), frame[1:]
            frame = await _receive_bytes(reader)
    except (ConnectionError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
        raise Torn from error


async def _receive_bytes(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MAX_FRAME_BYTES:
        raise ConnectionError("a frame is too long")
    return await reader.readexactly(length)


async def _send(writer: asyncio.StreamWriter, kind: Kind, body: bytes) -> None:
    writer.write(_LENGTH.pack(len(kind) + len(body)) + kind.encode() + body)
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
