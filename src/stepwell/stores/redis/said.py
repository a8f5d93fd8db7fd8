"""What people have set and said: current values of named sources, judgements of hits."""

from collections.abc import Sequence

from stepwell.core.changes import Judged, SourceMoved
from stepwell.core.errors import CorruptEntry, StoreFull
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import EVERYONE, Namespace
from stepwell.stores.messages import judged_message, read_message, source_message
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import PATIENCE_SECONDS, Served, run_durably
from stepwell.stores.redis.link import Refused
from stepwell.stores.redis.replies import integer, items, pairs
from stepwell.stores.redis.scripts import FULL, JUDGED, MOVED

_PAGE = 1_000


class Said:
    """Kept in two hashes beside the feed. Safe for many tasks on one event loop."""

    def __init__(self, servers: Served, layout: Layout) -> None:
        self._servers = servers
        self._layout = layout

    async def move_source(
        self, generation: bytes, namespace: Namespace, name: str, value: str
    ) -> int:
        """Set the value of a source; return the change's position, 0 if it had that value.

        Raises:
            StoreFull: The namespace, or all together, have too many sources.
            StoreError: It was not done.
        """
        layout = self._layout
        try:
            moved = await run_durably(
                self._servers,
                MOVED,
                (layout.meta, layout.changes, layout.sources),
                generation,
                source_message(namespace, name, value),
                namespace,
                name.encode(),
                EVERYONE,
            )
        except Refused as error:
            if error.code == FULL:
                raise StoreFull(str(error)) from error
            raise
        return integer(moved)

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        """Return the current value of every source. Raises `StoreError`."""
        values = {}
        for message in await self._all(self._layout.sources):
            change = _read(message)
            if isinstance(change, SourceMoved):
                values[change.namespace, change.name] = change.value
        return values

    async def judge(self, generation: bytes, judgement: Judgement) -> int:
        """Keep a judgement; return the change's position. Raises `StoreError`."""
        layout = self._layout
        judged = await run_durably(
            self._servers,
            JUDGED,
            (layout.meta, layout.changes, layout.judgements, layout.judged),
            generation,
            judged_message(judgement),
            judgement.pair,
            int(judgement.verdict is Verdict.WRONG),
        )
        return integer(judged)

    async def judgements(self) -> Sequence[Judgement]:
        """Return all that are kept, oldest first. Raises `StoreError`."""
        found: list[tuple[int, Judgement]] = []
        for row in await self._all(self._layout.judgements):
            position, _, message = row.partition(b":")
            change = _read(message)
            if isinstance(change, Judged):
                found.append((int(position), change.judgement))
        found.sort(key=lambda judged: judged[0])
        return [judgement for _, judgement in found]

    async def _all(self, name: bytes) -> Sequence[bytes]:
        """Return the values of a hash, read in pages: others are served in between."""
        values: dict[bytes, bytes] = {}
        cursor = 0
        while True:
            following, page = items(
                await self._servers.ask(
                    name, "HSCAN", name, cursor, "COUNT", _PAGE, timeout_seconds=PATIENCE_SECONDS
                )
            )
            values.update(pairs(page))
            if not (cursor := integer(following)):
                return list(values.values())


def _read(message: bytes) -> object:
    """Return what a message says; nothing if it is of a version this code cannot read."""
    try:
        return read_message(0, message)
    except CorruptEntry:
        return None
