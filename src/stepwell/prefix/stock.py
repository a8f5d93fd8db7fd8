"""Which blocks stand where. All moves between shelves, without any lock, copy or I/O."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from stepwell.core.kv import TOKEN_BYTES, KvScope, block_id
from stepwell.prefix.budget import Budget, Victim
from stepwell.prefix.figures import Counts, EvictionReason
from stepwell.prefix.policies import Policy
from stepwell.prefix.record import Kind, Record, Root, level_of
from stepwell.prefix.shelves import BlockName, Level


class Falling:
    """In place of a block's memory while it is packed: it still is as it was computed."""

    __slots__ = ("block",)

    def __init__(self, block: object) -> None:
        self.block = block


class Stock:
    """Roots, records and budgets, and the rules by which blocks move.

    Three sets of blocks are closed towards the root at every moment: those that stand as exact,
    those that stand in memory in any form, those that stand on disk. So along any path shelves only
    get slower, and no block is kept that cannot be reached.

    Not safe across threads: the cache has the lock. Each move costs a microsecond or two.
    """

    def __init__(
        self, block_tokens: int, budgets: Sequence[Budget], policy: Policy, counts: Counts
    ) -> None:
        self._block_tokens = block_tokens
        self._policy = policy
        self.budgets: Final = budgets
        self.counts: Final = counts
        self.roots: Final[dict[KvScope, Root]] = {}
        self._unwanted: list[BlockName] = []

    def used(self, path: Sequence[Record]) -> None:
        """Note a use of all blocks of a prefix."""
        self._policy.used(path)

    def hold(self, path: Sequence[Record]) -> list[Record]:
        """Keep the blocks of a prefix where they are.

        To hold the last one on each shelf is enough: those before it cannot leave the shelf first.

        Returns:
            What is to be given to `let_go`, once.
        """
        held: list[Record] = []
        end = len(path)
        while end:
            last = path[end - 1]
            last.holds += 1
            held.append(last)
            same = path[0].level is last.level
            end = 0 if same else bisect_left(path, level_of(last), hi=end, key=level_of)
        return held

    def let_go(self, held: Sequence[Record]) -> None:
        """Undo a `hold`."""
        for record in held:
            record.holds -= 1
            if not record.holds:
                self._offer(record)

    def reserve(self, level: Level, root: Root, blocks: int, *, evict: bool = True) -> int:
        """Take room for blocks of a root, as far as there is any or it can be made at once.

        What leaves the exact shelf may have to be packed: nothing is evicted from there here, see
        `begin_falls`.

        Returns:
            For how many blocks.
        """
        budget, size = self.budgets[level], root.block_bytes[level]
        evict = evict and level is not Level.EXACT
        for granted in range(blocks):
            while not budget.take(root.tenant, size):
                victim = budget.victim(root.tenant, size, size) if evict else None
                if victim is None:
                    return granted
                self._evict(victim, level)
        return blocks

    def give_back(self, level: Level, root: Root, blocks: int) -> None:
        """Give back room that was reserved."""
        for _ in range(blocks):
            self.budgets[level].give_back(root.tenant, root.block_bytes[level])

    def begin_falls(self, root: Root, blocks: int) -> list[tuple[Record, Falling]]:
        """Choose exact blocks to be packed, so that there is room for others of a root.

        What cannot go to the compact shelf leaves memory at once. The rest is held, with `Falling`
        for its memory, and its exact bytes stay taken, until `land`.
        """
        falling: list[tuple[Record, Falling]] = []
        exact, size = self.budgets[Level.EXACT], root.block_bytes[Level.EXACT]
        may_fall = self.budgets[Level.COMPACT].max_bytes > 0
        own_short = short = 0
        for _ in range(blocks):
            short, own_short = short + size, own_short + size
            victim = exact.victim(root.tenant, short, own_short)
            if victim is None:
                break
            record = victim.record
            if may_fall and self.reserve(Level.COMPACT, record.root, 1):
                falling.append((record, self._fall(victim)))
                coming = record.root.block_bytes[Level.EXACT]
                short -= coming
                own_short -= coming if record.root.tenant == root.tenant else 0
            elif record.heirs[Level.COMPACT]:
                # All that stands behind it is being packed, too: it must wait.
                exact.offer(record)
                break
            else:
                self._evict(victim, Level.EXACT)
        return falling

    def land(self, record: Record, fall: Falling, packed: object) -> None:
        """Put a packed block on the compact shelf; with ``None`` for it, the block is lost."""
        self.give_back(Level.EXACT, record.root, 1)
        if record.memory is fall and packed is None:
            self.lose(record, Level.COMPACT)
        elif record.memory is fall:
            record.memory = packed
        self.let_go([record])

    def add(self, root: Root, tokens: bytes, kinds: Sequence[Kind], seconds: float) -> list[Record]:
        """Return the records of the first ``len(kinds)`` blocks, adding those that are missing.

        New ones stand nowhere yet: each must be put somewhere before the lock is let go.

        Args:
            root: Of which scope.
            tokens: From the first on; no more than the blocks have.
            kinds: Of each block; of those that are there, it is left as it is.
            seconds: What computing a new one took.
        """
        self.roots.setdefault(root.scope, root)
        match = root.tree.find(tokens)
        records = root.tree.payloads(match)
        new: list[Record] = []
        parent = records[-1] if records else None
        for kind in kinds[len(records) :]:
            parent = Record(root, parent, kind, seconds)
            new.append(parent)
        root.tree.extend(match, tokens, new)
        self._policy.used(new)
        return records + new

    def stand(self, records: Sequence[Record], level: Level, memory: Sequence[object]) -> None:
        """Put consecutive blocks that are not in memory there, on room that was reserved."""
        for record, copy in zip(records, memory, strict=True):
            record.memory, record.level = copy, level
            if level is Level.EXACT:
                self._enter(record, Level.EXACT)
            self._enter(record, Level.COMPACT)
        if records:
            self._offer(records[-1])

    def stand_on_disk(self, records: Sequence[Record]) -> None:
        """Note that consecutive blocks are on disk, on room that was reserved."""
        for record in records:
            record.on_disk = True
            if record.level is None:
                record.level = Level.DISK
            self._enter(record, Level.DISK)
        if records:
            self._offer(records[-1])

    def lose(self, record: Record, level: Level) -> None:
        """Drop a block's damaged copy, and with it what stands behind it on that shelf."""
        lost = [record]
        if record.run is not None and record.level is not None:
            inside = record.run.payloads.index(record) + 1
            lost += record.root.tree.behind(record.run, inside)
        for one in reversed(lost):
            if level is Level.DISK and one.on_disk:
                self._leave_disk(one, "lost")
            elif level is not Level.DISK and one.memory is not None:
                self._leave_memory(one, "lost")

    def name_of(self, record: Record) -> BlockName:
        """Return what a block is called outside. Costs 2 us for each one that had no name yet."""
        nameless = [record]
        while nameless[-1].id is None and (parent := nameless[-1].parent) is not None:
            nameless.append(parent)
        for one in reversed(nameless):
            name = self._name(one)
            one.id = name.id
        return name

    @property
    def has_unwanted(self) -> bool:
        """Whether there are files to be removed."""
        return bool(self._unwanted)

    def discard(self, name: BlockName) -> None:
        """Have a file removed."""
        self._unwanted.append(name)

    def take_unwanted(self) -> list[BlockName]:
        """Return blocks whose files are to be removed; each is returned once."""
        unwanted, self._unwanted = self._unwanted, []
        return unwanted

    def _name(self, record: Record) -> BlockName:
        run, before = record.run, record.root.digest
        if record.parent is not None and record.parent.id is not None:
            before = record.parent.id
        if run is None:
            raise ValueError("a block that is gone has no name")
        step = self._block_tokens * TOKEN_BYTES
        start = run.payloads.index(record) * step
        tokens = run.edge[start : start + step]
        return BlockName(record.root.digest, record.id or block_id(before, tokens), before, tokens)

    def _evict(self, victim: Victim, level: Level) -> None:
        self._policy.left(victim.record)
        if level is Level.DISK:
            self._leave_disk(victim.record, victim.reason)
        else:
            self._leave_memory(victim.record, victim.reason)

    def _fall(self, victim: Victim) -> Falling:
        record = victim.record
        self._policy.left(record)
        self.budgets[Level.EXACT].evicted[victim.reason] += 1
        fall = Falling(record.memory)
        record.memory, record.level = fall, Level.COMPACT
        record.holds += 1
        self._exit(record, Level.EXACT)
        return fall

    def _leave_memory(self, record: Record, reason: EvictionReason) -> None:
        level = record.level
        if level is None:
            return
        root, budget = record.root, self.budgets[level]
        budget.evicted[reason] += 1
        budget.give_back(root.tenant, root.block_bytes[level])
        record.memory = None
        if level is Level.EXACT:
            self._exit(record, Level.EXACT, Level.COMPACT)
        else:
            self._exit(record, Level.COMPACT)
        if record.on_disk:
            record.level = Level.DISK
            self._offer(record)
        else:
            record.level = None
            self._remove(record)

    def _leave_disk(self, record: Record, reason: EvictionReason) -> None:
        self.budgets[Level.DISK].evicted[reason] += 1
        self._unwanted.append(self.name_of(record))
        self.give_back(Level.DISK, record.root, 1)
        record.on_disk = False
        self._exit(record, Level.DISK)
        if record.level is Level.DISK:
            record.level = None
            self._remove(record)

    def _remove(self, record: Record) -> None:
        run, root = record.run, record.root
        if run is not None:
            root.tree.cut(run)
            record.run = None
        if not len(root.tree) and self.roots.get(root.scope) is root:
            del self.roots[root.scope]

    def _enter(self, record: Record, level: Level) -> None:
        if record.parent is not None:
            record.parent.heirs[level] += 1

    def _exit(self, record: Record, *levels: Level) -> None:
        parent = record.parent
        if parent is not None:
            for level in levels:
                parent.heirs[level] -= 1
            self._offer(parent)

    def _offer(self, record: Record) -> None:
        """Note that a block may leave a shelf, wherever it may."""
        level = record.level
        if level is None:
            return
        if record.may_leave(level):
            self.budgets[level].offer(record)
        if record.on_disk and level is not Level.DISK and record.may_leave(Level.DISK):
            self.budgets[Level.DISK].offer(record)
