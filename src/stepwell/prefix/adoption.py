"""Taking over, after a restart, what an earlier process left on disk."""

from collections.abc import Iterable, Iterator

from stepwell.core.kv import block_id
from stepwell.prefix.record import Kind, Root
from stepwell.prefix.shelves import BlockName, Level
from stepwell.prefix.stock import Stock


def chains(scope: bytes, names: Iterable[BlockName], block_bytes: int) -> Iterator[list[BlockName]]:
    """Yield rows of blocks, each behind the one before it, the first one behind nothing.

    Rows share their first blocks. Blocks of another scope or size, those whose name is not
    theirs, and those whose predecessors are not there are left out.
    """
    behind: dict[bytes, list[BlockName]] = {}
    for name in names:
        ours = name.scope == scope and len(name.tokens) == block_bytes
        if ours and block_id(name.before, name.tokens) == name.id:
            behind.setdefault(name.before, []).append(name)
    row: list[BlockName] = []
    waiting = [(0, name) for name in behind.pop(scope, [])]
    while waiting:
        depth, name = waiting.pop()
        row[depth:] = [name]
        following = behind.pop(name.id, [])
        waiting.extend((depth + 1, one) for one in following)
        if not following:
            yield list(row)


def adopt(stock: Stock, root: Root, row: list[BlockName], seconds: float) -> int:
    """Note that a row of blocks is on disk; return how many of it are news and fit there.

    Under the cache's lock.
    """
    tokens = b"".join(name.tokens for name in row)
    there = root.tree.payloads(root.tree.find(tokens))
    known = len(there)
    if not all(record.on_disk for record in there):
        return 0
    granted = stock.reserve(Level.DISK, root, len(row) - known, evict=False)
    if not granted:
        return 0
    end = known + granted
    tokens = tokens[: end * len(row[0].tokens)]
    new = stock.add(root, tokens, [Kind.PROMPT] * end, seconds)[known:]
    for record, name in zip(new, row[known:end], strict=True):
        record.id = name.id
    stock.stand_on_disk(new)
    return granted
