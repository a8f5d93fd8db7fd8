"""Makes room in memory, packing what falls from the exact shelf to the compact one."""

from threading import Lock
from typing import Final, Generic, TypeVar

from stepwell.prefix.record import Record, Root
from stepwell.prefix.shelves import Form, Level, MemoryShelf, Shelves
from stepwell.prefix.stock import Falling, Stock

Block = TypeVar("Block")


class Memory(Generic[Block]):
    """The shelves in memory, from without the lock. Safe for many threads."""

    __slots__ = ("_compact", "_exact", "_lock", "_stock")

    def __init__(self, shelves: Shelves[Block], stock: Stock, lock: Lock) -> None:
        self._exact: Final[Form[Block]] = shelves.exact.form
        self._compact: Final[MemoryShelf[Block] | None] = shelves.compact
        self._stock = stock
        self._lock = lock

    def form(self, level: Level) -> Form[Block]:
        """Return the form in which blocks stand on a shelf in memory."""
        if level is Level.COMPACT and self._compact is not None:
            return self._compact.form
        return self._exact

    def unpack(self, level: Level, memory: object) -> Block:
        """Return a block from what stands in memory, which may be about to be packed."""
        if isinstance(memory, Falling):
            return self._exact.unpack(memory.block)
        return self.form(level).unpack(memory)

    def make_room(self, level: Level, root: Root, blocks: int) -> int:
        """Reserve room for blocks of a root, evicting others; no lock held.

        Returns:
            For how many there is room now; they belong to the caller.
        """
        granted = 0
        while granted < blocks:
            with self._lock:
                got, falling = self._reserve(level, root, blocks - granted)
            granted += got
            if not got and not falling:
                break
            for record, fall in falling:
                packed = self._pack(fall)
                with self._lock:
                    self._stock.land(record, fall, packed)
        return granted

    def _reserve(
        self, level: Level, root: Root, blocks: int
    ) -> tuple[int, list[tuple[Record, Falling]]]:
        """Reserve what there is, make more, and reserve what of it did not have to be packed."""
        got = self._stock.reserve(level, root, blocks)
        if got == blocks or level is not Level.EXACT:
            return got, []
        falling = self._stock.begin_falls(root, blocks - got)
        return got + self._stock.reserve(level, root, blocks - got), falling

    def _pack(self, fall: Falling) -> object:
        """Return the block in the compact form; ``None`` if that cannot be made."""
        try:
            return self.form(Level.COMPACT).pack(self._exact.unpack(fall.block))
        except Exception:  # noqa: BLE001  (a form's fault loses a block, which is counted)
            return None
