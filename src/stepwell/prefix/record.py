"""What the cache knows of a block: where it stands, who follows it, how it is used."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from stepwell.core.kv import BlockId, KvScope
from stepwell.prefix.shelves import Level
from stepwell.prefix.tree import RadixTree, Run


class Kind(IntEnum):
    """Whether a block's tokens were asked. What was not leaves first."""

    OUTPUT = 0
    """Some of its tokens were generated, and nobody has asked with them yet."""
    PROMPT = 1


class Root:
    """All that is kept of one scope. Changed under the cache's lock."""

    __slots__ = ("block_bytes", "digest", "scope", "seconds_per_token", "tenant", "tree")

    def __init__(self, scope: KvScope, block_tokens: int, block_bytes: tuple[int, ...]) -> None:
        self.scope: Final = scope
        self.digest: Final = scope.digest()
        self.tenant: Final = scope.tenant
        """Whose quota its blocks count for."""
        self.block_bytes: Final = block_bytes
        """What one of its blocks takes, by level."""
        self.tree: Final[RadixTree[Record]] = RadixTree(block_tokens, _note_run)
        self.seconds_per_token = 0.0
        """What computing a token takes, as measured; 0: not known yet."""


class Record:
    """One block. Changed under the cache's lock; some 270 bytes with its lists."""

    __slots__ = (
        "heirs",
        "holds",
        "id",
        "kind",
        "level",
        "memory",
        "on_disk",
        "parent",
        "pins",
        "rank",
        "root",
        "run",
        "seconds",
        "uses",
    )

    def __init__(self, root: Root, parent: "Record | None", kind: Kind, seconds: float) -> None:
        self.root = root
        self.parent = parent
        """The block before it; ``None``: it is a first one."""
        self.kind = kind
        self.seconds = seconds
        """What computing it took."""
        self.run: Run[Record] | None = None
        """Its place in the tree."""
        self.level: Level | None = None
        """The fastest shelf it stands on; ``None``: it is gone."""
        self.memory: object = None
        """What stands in memory, in the form of ``level``."""
        self.on_disk = False
        self.heirs = [0, 0, 0]
        """How many blocks directly behind it stand as exact, in memory at all, on disk. It may
        leave such a set only when none behind it is in it."""
        self.holds = 0
        """Leases, pins and moves that need it, and so all before it, where they are."""
        self.pins = 0
        """Pins among them."""
        self.uses = 0
        self.rank = 0.0
        """The lower, the sooner it leaves: the policy's."""
        self.id: BlockId | None = None
        """Its name outside, once somebody needed it."""

    def stands_on(self, level: Level) -> bool:
        """Return whether a copy of it stands on a shelf."""
        return self.on_disk if level is Level.DISK else self.level is level

    def may_leave(self, level: Level) -> bool:
        """Return whether it could leave a shelf now: nobody needs it there or stands behind it."""
        return not self.holds and self.stands_on(level) and not self.heirs[level]


def level_of(record: Record) -> Level:
    """Return the fastest shelf on which a block of a tree stands."""
    if record.level is None:
        raise ValueError("a block that is gone is in the tree")
    return record.level


def _note_run(run: Run[Record], records: Sequence[Record]) -> None:
    for record in records:
        record.run = run
