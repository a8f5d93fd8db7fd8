"""What people have set and said: current values of named sources, judgements of hits."""

from collections.abc import Sequence

from stepwell.core.changes import Change, Judged, SourceMoved
from stepwell.core.entry import UNKNOWN_VALUE
from stepwell.core.errors import CorruptEntry, StoreFull
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import EVERYONE, CacheKey, Namespace, PairId
from stepwell.keys.namespace import NAMESPACE_BYTES
from stepwell.stores.messages import judged_message, read_message, source_message
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import PATIENCE_SECONDS, Served, run_durably
from stepwell.stores.redis.link import Refused
from stepwell.stores.redis.replies import integer, items, pairs
from stepwell.stores.redis.scripts import FULL, JUDGED, MOVED

_PAGE = 1_000
_NO_KEY = CacheKey(bytes(32))


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
        """Return the current value of every source; `UNKNOWN_VALUE` where it cannot be read.

        Raises:
            StoreError: They were not all read.
        """
        values = {}
        for field, message in (await self._all(self._layout.sources)).items():
            change = _read(message)
            namespace, name = Namespace(field[:NAMESPACE_BYTES]), field[NAMESPACE_BYTES:].decode()
            value = change.value if isinstance(change, SourceMoved) else UNKNOWN_VALUE
            values[namespace, name] = value
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
        """Return all that are kept, oldest first; what cannot be read is taken for "wrong".

        Raises:
            StoreError: They were not all read.
        """
        found: list[tuple[int, Judgement]] = []
        for pair, row in (await self._all(self._layout.judgements)).items():
            position, _, message = row.partition(b":")
            change = _read(message)
            judgement = change.judgement if isinstance(change, Judged) else _wrong(PairId(pair))
            found.append((int(position) if position.isdigit() else 0, judgement))
        found.sort(key=lambda judged: judged[0])
        return [judgement for _, judgement in found]

    async def _all(self, name: bytes) -> dict[bytes, bytes]:
        """Return a hash, read in pages: others are served in between."""
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
                return values


def _read(message: bytes) -> Change | None:
    """Return what a message says; nothing if it is of a version this code cannot read."""
    try:
        return read_message(0, message)
    except CorruptEntry:
        return None


def _wrong(pair: PairId) -> Judgement:
    """Return that two questions must not share an answer; of no entry in particular."""
    return Judgement(pair, _NO_KEY, similarity=0.0, verdict=Verdict.WRONG, judged_at=0.0)
