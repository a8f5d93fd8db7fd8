"""Single-flight across machines, by the store that they share.

Who flies a key is who has the lease on it. Who finds it taken writes a letter to the holder, and
gets the reply in letters, as it comes. Who has heard nothing for half a lease looks whether the
holder still has it; when it has run out, one of those who waited takes it, and goes on.

Where the store does not answer, there is no fleet: each process makes its own calls.
"""

import asyncio
import secrets
from asyncio import Task
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from stepwell.core.clock import Clock
from stepwell.core.errors import StoreError
from stepwell.core.names import CacheKey
from stepwell.core.ports import Claimed, Leases, Post
from stepwell.pipeline.circle import Followed, Lead, Leader
from stepwell.pipeline.flight import Flight
from stepwell.pipeline.frames import (
    MAX_PIECE_BYTES,
    Frame,
    Kind,
    Torn,
    Wanted,
    hand_over,
    take_over,
    wanted_for,
)
from stepwell.pipeline.leg import BorrowedLeg

LEASE_SECONDS = 2.0

_BEATS = 4
"""How often in a lease it is renewed, and each side says that it is still there."""

_MAX_TOLD = 1_000
"""How many others may read flights of ours at a time; the rest make their own calls."""

_MAX_UNREAD = 1_000
"""Parts that may wait for slow readers; who leaves more loses the thread."""

_NUMBER_BYTES = 8


class _Want(msgspec.Struct, array_like=True, frozen=True, tag="want"):
    """Asks for a flight."""

    talk: bytes
    reader: str
    """The address of who asks."""
    wanted: Wanted


class _Part(msgspec.Struct, array_like=True, frozen=True, tag="part"):
    """A frame of it."""

    talk: bytes
    number: int
    kind: Kind
    body: bytes


class _Alive(msgspec.Struct, array_like=True, frozen=True, tag="alive"):
    """There will be more."""

    talk: bytes


class _Reading(msgspec.Struct, array_like=True, frozen=True, tag="reading"):
    """It is still wanted."""

    talk: bytes
    reader: str


class _Over(msgspec.Struct, array_like=True, frozen=True, tag="over"):
    """Who is asked for more has nothing to tell: it lost the thread, or has ended it."""

    talk: bytes


class _Left(msgspec.Struct, array_like=True, frozen=True, tag="left"):
    """It is not wanted any more."""

    talk: bytes


_Letter = _Want | _Part | _Alive | _Over | _Reading | _Left
_decoder: msgspec.msgpack.Decoder[_Letter] = msgspec.msgpack.Decoder(_Letter)


@dataclass(slots=True)
class _Telling:
    """A flight of ours that another reads."""

    reader: str
    heard_at: float
    task: Task[None]


@dataclass(slots=True)
class _Hearing:
    """A flight of another that we read."""

    leader: str
    heard_at: float
    was_heard: bool = False
    parts: asyncio.Queue[_Part | None] = field(default_factory=asyncio.Queue)
    """``None``: there will be no more."""


class Fleet:
    """All that share a store. One event loop; safe for many tasks."""

    def __init__(
        self,
        leases: Leases,
        post: Post,
        find: Callable[[CacheKey], Flight | None],
        *,
        clock: Clock,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Join; `start` lets the others find this one.

        Args:
            leases: Who flies.
            post: How the others hear of it.
            find: Returns this process's flight for a key.
            clock: For how long nothing was heard.
            lease_seconds: After how long a leader that is not heard is replaced. Shorter finds
                the dead sooner, and takes the slow for dead.
        """
        self._leases = leases
        self._post = post
        self._find = find
        self._now = clock.monotonic
        self._lease_seconds = lease_seconds
        self._milliseconds = int(lease_seconds * 1000)
        self._telling: dict[bytes, _Telling] = {}
        self._hearing: dict[bytes, _Hearing] = {}
        self._errands: set[Task[None]] = set()
        self._beating: Task[None] | None = None

    def start(self) -> None:
        """Begin to answer others."""
        self._post.start(self._take)
        self._beating = asyncio.create_task(self._beat_for_ever())

    async def aclose(self) -> None:
        """Stop answering. Leases that are still held run out."""
        tasks = [telling.task for telling in self._telling.values()]
        if self._beating is not None:
            tasks.append(self._beating)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._errands, return_exceptions=True)

    async def claim(self, key: CacheKey) -> Lead | Leader:
        """As `Circle.claim`. One script; where the store does not answer, the lead is ours."""
        try:
            claimed = await self._leases.claim(key, self._milliseconds)
        except StoreError:
            return Lead(release=lambda: None, may_be_made=False)
        if isinstance(claimed, Claimed):
            release = partial(self._run, partial(self._leases.release, key))
            return Lead(release, claimed.is_made)
        return _Remote(self, key, claimed)

    async def follow(
        self, leader: str, key: CacheKey, leg: BorrowedLeg, *, patience_seconds: float
    ) -> Followed:
        """As `Leader.follow`."""
        talk = secrets.token_bytes(_NUMBER_BYTES)
        hearing = self._hearing[talk] = _Hearing(leader, self._now())
        want = _Want(talk, self._post.address, wanted_for(key, leg.made))
        is_over = False
        try:
            await self._post.send(leader, msgspec.msgpack.encode(want))
            frames = self._frames(hearing, key, self._now() + patience_seconds)
            followed = await take_over(frames, leg)
            is_over = followed is not Followed.LOST
            if followed is Followed.LOST and not hearing.was_heard:
                return Followed.UNREACHED
        except TimeoutError:
            return Followed.NOT_THERE
        except StoreError:
            return Followed.UNREACHED
        else:
            return followed
        finally:
            del self._hearing[talk]
            if not is_over:
                self._run(partial(self._send_patiently, leader, _Left(talk)))

    async def _frames(
        self, hearing: _Hearing, key: CacheKey, deadline: float
    ) -> AsyncGenerator[Frame]:
        """Yield what comes, as long as the leader is there.

        Raises:
            Torn: It is not.
            TimeoutError: It is, but has not begun at ``deadline``.
        """
        expected = 0
        while True:
            try:
                async with asyncio.timeout(self._lease_seconds / _BEATS):
                    part = await hearing.parts.get()
            except TimeoutError:
                if expected == 0 and self._now() >= deadline:
                    raise
                await self._expect_alive(hearing, key)
                continue
            if part is None or part.number != expected:
                raise Torn
            expected += 1
            yield part.kind, part.body

    async def _expect_alive(self, hearing: _Hearing, key: CacheKey) -> None:
        """Raise `Torn` if the leader has been silent too long, or has lost its lease."""
        silent_seconds = self._now() - hearing.heard_at
        if silent_seconds < self._lease_seconds / 2:
            return
        try:
            holder = await self._leases.holder(key)
        except StoreError:
            if silent_seconds > self._lease_seconds:
                raise Torn from None
        else:
            if holder != hearing.leader or silent_seconds > 2 * self._lease_seconds:
                raise Torn

    def _take(self, letter: bytes) -> None:
        """Take a letter. What cannot be read is of another version, or of nobody we know."""
        try:
            read = _decoder.decode(letter)
        except msgspec.DecodeError:
            return
        match read:
            case _Want():
                self._begin(read)
            case _Part() | _Alive() | _Over():
                self._hear(read)
            case _Reading() | _Left():
                self._heed(read)

    def _hear(self, letter: _Part | _Alive | _Over) -> None:
        hearing = self._hearing.get(letter.talk)
        if hearing is None:
            return
        hearing.heard_at = self._now()
        hearing.was_heard = True
        if isinstance(letter, _Part) and hearing.parts.qsize() < _MAX_UNREAD:
            hearing.parts.put_nowait(letter)
        elif isinstance(letter, _Over):
            hearing.parts.put_nowait(None)

    def _heed(self, letter: _Reading | _Left) -> None:
        telling = self._telling.get(letter.talk)
        if telling is None:
            if isinstance(letter, _Reading):
                self._run(partial(self._send_patiently, letter.reader, _Over(letter.talk)))
            return
        telling.heard_at = self._now()
        if isinstance(letter, _Left):
            telling.task.cancel()

    def _begin(self, want: _Want) -> None:
        """Begin to tell another of a flight of ours."""
        if want.talk in self._telling:
            return
        if len(self._telling) >= _MAX_TOLD:
            no = _Part(want.talk, 0, Kind.OUTDATED, b"")
            self._run(partial(self._send_patiently, want.reader, no))
            return
        task = asyncio.create_task(self._tell(want))
        self._telling[want.talk] = _Telling(want.reader, self._now(), task)
        task.add_done_callback(lambda _: self._telling.pop(want.talk))

    async def _tell(self, want: _Want) -> None:
        number = 0

        async def send(kind: Kind, body: bytes) -> None:
            nonlocal number
            for start in range(0, max(1, len(body)), MAX_PIECE_BYTES):
                piece = body[start : start + MAX_PIECE_BYTES]
                await self._send_patiently(want.reader, _Part(want.talk, number, kind, piece))
                number += 1

        with suppress(StoreError):  # It will notice that nothing comes.
            await hand_over(self._find(CacheKey(want.wanted.key)), want.wanted, send)

    async def _beat_for_ever(self) -> None:
        """Hold what is ours, and tell the others that we are there."""
        while True:
            await asyncio.sleep(self._lease_seconds / _BEATS)
            with suppress(StoreError):
                await self._leases.renew(self._milliseconds)
            now = self._now()
            for talk, telling in list(self._telling.items()):
                if now - telling.heard_at > self._lease_seconds:
                    telling.task.cancel()
                else:
                    self._run(partial(self._send_patiently, telling.reader, _Alive(talk)))
            for talk, hearing in list(self._hearing.items()):
                reading = _Reading(talk, self._post.address)
                self._run(partial(self._send_patiently, hearing.leader, reading))

    async def _send_patiently(self, to: str, letter: _Letter) -> None:
        """Send a letter that no request waits for."""
        written = msgspec.msgpack.encode(letter)
        await self._post.send(to, written, patience_seconds=self._lease_seconds)

    def _run(self, errand: Callable[[], Coroutine[None, None, None]]) -> None:
        """Have something done that nobody waits for, and that may fail."""
        task = asyncio.create_task(_quietly(errand))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


@dataclass(frozen=True, slots=True)
class _Remote:
    """Another process that makes a call."""

    fleet: Fleet
    key: CacheKey
    address: str

    async def follow(self, leg: BorrowedLeg, *, patience_seconds: float) -> Followed:
        """As `Leader.follow`."""
        return await self.fleet.follow(
            self.address, self.key, leg, patience_seconds=patience_seconds
        )


async def _quietly(errand: Callable[[], Coroutine[None, None, None]]) -> None:
    with suppress(StoreError):
        await errand()
