"""The change feed in Redis, as one gateway hears it.

A connection of its own waits for changes, so each is here as soon as it is made, and each answer
says up to which moment nothing has been missed. Positions follow each other without a gap: where
one is missing, or the server's history is another than it was, changes may have been lost.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence

from stepwell.core.changes import Change, Invalidated, Lost
from stepwell.core.clock import Clock
from stepwell.core.errors import ConfigError, CorruptEntry, CutOff, StepwellError, StoreError
from stepwell.core.names import Position
from stepwell.stores.messages import read_message
from stepwell.stores.redis.epochs import Epochs
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import PATIENCE_SECONDS, Dialled, Direct, Line, replication
from stepwell.stores.redis.link import Reply
from stepwell.stores.redis.replies import integer, items, pairs, stream_entries, string
from stepwell.stores.redis.scripts import OPEN

BLOCK_SECONDS = 0.2
"""How long the server may wait for a change before it says that there is none."""

MAX_LAG_SECONDS = 1.0
"""How old what is known of changes may be for held entries still to be served."""

_SILENT = "the feed is not heard; what is held here may be out of date"
_AT_ONCE = 1_000
_PAUSE_SECONDS = 0.2
_GENERATION_BYTES = 6


class RedisFeed:
    """Follows the changes. One event loop; not thread-safe."""

    def __init__(
        self,
        servers: Dialled,
        layout: Layout,
        *,
        clock: Clock,
        max_lag_seconds: float = MAX_LAG_SECONDS,
        on_error: Callable[[StepwellError], None],
        on_word: Callable[[], None],
    ) -> None:
        """Follow nothing yet; `start` does.

        Args:
            servers: Where the feed is.
            layout: Under which names.
            clock: For how old what is known is.
            max_lag_seconds: How old it may be.
            on_error: Hears why it cannot be followed.
            on_word: Called each time that the feed is heard, some five times a second.
        """
        self._servers = servers
        self._layout = layout
        self._monotonic = clock.monotonic
        self._max_lag_seconds = max_lag_seconds
        self._on_error = on_error
        self._on_word = on_word
        self._generation = b""
        self._history = b""
        self._heard = Position(0)
        """Position of the last change that came,"""
        self._read = Position(0)
        """and of the last that was read."""
        self._unread: list[Change] = []
        self._epochs = Epochs()
        self._valid_until = float("-inf")
        self._server_seconds = 0
        self._moved = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def generation(self) -> bytes:
        """Part of the names of entries. Raises `CutOff` before it is known."""
        if not self._generation:
            raise CutOff("the shared store has not been reached yet")
        return self._generation

    @property
    def epochs(self) -> Epochs:
        """Invalidations whose entries may still be there."""
        return self._epochs

    @property
    def heard_at(self) -> int:
        """Second of the server's clock up to which nothing has been missed.

        Raises `CutOff` if that is too long ago.
        """
        self._check()
        return self._server_seconds

    @property
    def trouble(self) -> str:
        """Why what is held must not be served; empty if it may be."""
        return _SILENT if self._monotonic() > self._valid_until else ""

    def behind(self) -> bool:
        """As `Feed.behind`; also true while cut off."""
        return bool(self._unread) or self._monotonic() > self._valid_until

    def position(self) -> Position:
        """As `Feed.position`."""
        return self._read

    def read(self) -> Sequence[Change]:
        """Return the changes since the last call.

        Raises:
            CutOff: What has changed is not known just now.
        """
        self._check()
        changes, self._unread = self._unread, []
        self._read = self._heard
        return changes

    def _check(self) -> None:
        if self.trouble:
            raise CutOff(self.trouble)

    async def heard(self, position: Position) -> None:
        """Wait until the change at ``position`` has come.

        Raises:
            CutOff: It did not, in two seconds.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self._heard < position:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError as error:
            raise CutOff("a change was made, but the feed did not bring it") from error

    async def until_heard(self) -> None:
        """Wait until what has changed is known; raise `CutOff` after two seconds."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self.trouble:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError as error:
            raise CutOff(self.trouble or _SILENT) from error

    async def start(self, patience_seconds: float) -> None:
        """Begin to follow, and wait a while for the first word; go on without it."""
        self._following = asyncio.create_task(self._follow())
        try:
            async with asyncio.timeout(patience_seconds):
                while not self._generation:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return
        # Nobody can have derived anything yet.
        self._unread.clear()
        self._read = self._heard

    async def aclose(self) -> None:
        """Stop following. May be called twice."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None

    async def _follow(self) -> None:
        is_torn = False
        while True:
            try:
                line = await self._servers.dial(self._layout.meta)
                try:
                    await self._open(line, anew=is_torn)
                    if is_torn:
                        # What a newer version writes may tear it again at once, and again.
                        await asyncio.sleep(_PAUSE_SECONDS)
                    is_torn = False
                    while True:
                        await self._hear(line)
                finally:
                    line.close()
            except _Torn:
                is_torn = True
            except (StoreError, ConfigError) as error:
                self._on_error(error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _open(self, line: Line, *, anew: bool) -> None:
        """Find out where the feed is; start anew if anything of it may be missing here."""
        history = await _history(line)
        asked_at = self._monotonic()
        now = await line.ask("TIME", timeout_seconds=PATIENCE_SECONDS)
        opened = await OPEN.run(
            Direct(line),
            (self._layout.meta, self._layout.changes),
            self._heard,
            secrets.token_urlsafe(_GENERATION_BYTES),
            history,
        )
        name, position, floor = items(opened)
        generation, here = string(name), Position(integer(position))
        is_known = (generation, history) == (self._generation, self._history)
        if anew or not is_known or here < self._heard:
            await self._start_anew(line, here, integer(floor))
        # Not before: if that failed, it is to be done again.
        self._generation, self._history = generation, history
        if here == self._heard:
            self._is_heard(asked_at, now)

    def _is_heard(self, asked_at: float, now: Reply) -> None:
        """Note that nothing had been missed at a moment, ``now`` by the server's clock."""
        self._server_seconds = integer(items(now)[0])
        self._valid_until = asked_at + self._max_lag_seconds
        self._moved.set()
        self._on_word()

    async def _start_anew(self, line: Line, here: Position, floor: int) -> None:
        rows = await line.ask(
            *("ZRANGE", self._layout.epochs, 0, -1, "WITHSCORES"), timeout_seconds=PATIENCE_SECONDS
        )
        known: list[Invalidated] = []
        for message, score in pairs(rows):
            position = int(float(score))
            try:
                change = read_message(position, message)
            except CorruptEntry as error:  # of a newer version, perhaps: it may mean anything
                self._on_error(error)
                floor = max(floor, position)
            else:
                known += [change] if isinstance(change, Invalidated) else []
        self._epochs = Epochs(Position(floor))
        for change in known:
            self._epochs.note(change)
        self._heard = here
        self._unread = [Lost(here)]

    async def _hear(self, line: Line) -> None:
        """Wait for changes, or for the word that there are none."""
        asked_at = self._monotonic()
        time = line.ask("TIME", timeout_seconds=PATIENCE_SECONDS)
        held = line.ask("HGET", self._layout.meta, "generation", timeout_seconds=PATIENCE_SECONDS)
        told = line.ask(
            *("XREAD", "COUNT", _AT_ONCE, "BLOCK", int(BLOCK_SECONDS * 1000), "STREAMS"),
            *(self._layout.changes, f"{self._heard}-0"),
            timeout_seconds=BLOCK_SECONDS + PATIENCE_SECONDS,
        )
        now, generation, streams = await asyncio.gather(time, held, told)
        if generation != self._generation:
            raise _Torn  # It was emptied.
        if streams is not None:
            for position, fields in stream_entries(items(items(streams)[0])[1]):
                self._take(Position(position), fields)
        self._is_heard(asked_at, now)

    def _take(self, position: Position, fields: dict[bytes, bytes]) -> None:
        if position != self._heard + 1:
            raise _Torn
        if (until := fields.get(b"swept")) is not None:
            self._epochs.forget(Position(integer(until)))
        else:
            self._take_change(position, fields.get(b"change", b""))
        self._heard = position

    def _take_change(self, position: Position, message: bytes) -> None:
        try:
            change = read_message(position, message)
        except CorruptEntry as error:  # of a newer version, perhaps
            self._on_error(error)
            raise _Torn from error
        if isinstance(change, Invalidated):
            self._epochs.note(change)
        self._unread.append(change)


class _Torn(Exception):
    """Changes are missing, or cannot be read."""


async def _history(line: Line) -> bytes:
    """Return what tells one line of events of a server from another: it changes with fail-overs.

    Empty where the server does not say: then only what is missing tells.
    """
    found = re.search(rb"master_replid:(\w+)", await replication(line))
    return b"" if found is None else found[1]
