"""Who has borrowed what, and until when."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from stepwell.prefix.record import Record, Root

Block = TypeVar("Block")


class Lease(Generic[Block]):
    """A `KvLease`: blocks that stay where they are until it is released or its time is over.

    What was loaded belongs to the reader; a lease whose time is over only loads nothing any more.
    Safe for many threads.
    """

    __slots__ = (
        "_load",
        "_release",
        "block_tokens",
        "deadline",
        "held",
        "records",
        "root",
        "tokens",
    )

    def __init__(
        self,
        root: Root | None,
        records: list[Record],
        tokens: bytes,
        *,
        load: "Callable[[Lease[Block]], Sequence[Block]]",
        release: "Callable[[Lease[Block]], None]",
        block_tokens: int,
    ) -> None:
        self.root: Final = root
        """``None``: nothing was found."""
        self.records = records
        """Under the cache's lock; none any more when it is over."""
        self.held: list[Record] = []
        """What keeps them where they are: to be let go of."""
        self.tokens: Final = tokens
        self.block_tokens: Final = block_tokens
        self.deadline = 0.0
        self._load = load
        self._release = release

    @property
    def matched_tokens(self) -> int:
        """How many tokens have blocks worth loading; fewer once some were found damaged."""
        return len(self.records) * self.block_tokens

    def load(self) -> Sequence[Block]:
        """Return the blocks in order; see `KvLease.load`."""
        return self._load(self)

    def release(self) -> None:
        """Let go of them. A few microseconds; may be called twice, from any thread."""
        self._release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class LeaseBook(Generic[Block]):
    """Open leases, by the order in which their time is over. Under the cache's lock."""

    __slots__ = ("_open", "_seconds")

    def __init__(self, seconds: float) -> None:
        """Let leases last this long."""
        self._seconds = seconds
        self._open: OrderedDict[Lease[Block], None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def open(self, lease: Lease[Block], held: list[Record], now: float) -> None:
        """Begin a lease's time."""
        lease.held = held
        lease.deadline = now + self._seconds
        self._open[lease] = None

    def close(self, lease: Lease[Block]) -> list[Record]:
        """End a lease and return what is to be let go of; nothing if it is over."""
        self._open.pop(lease, None)
        held, lease.held, lease.records = lease.held, [], []
        return held

    def overdue(self, now: float) -> list[Lease[Block]]:
        """Return the leases whose time is over."""
        late = []
        for lease in self._open:
            if lease.deadline > now:
                break
            late.append(lease)
        return late
