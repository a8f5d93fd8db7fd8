"""How many bytes stand on a shelf, and whose."""

from collections import Counter
from typing import NamedTuple

from stepwell.core.names import Namespace
from stepwell.prefix.figures import EvictionReason
from stepwell.prefix.record import Record
from stepwell.prefix.shelves import Level
from stepwell.prefix.tails import Tails


class Victim(NamedTuple):
    """What must leave, and why."""

    record: Record
    reason: EvictionReason


class Budget:
    """Bytes of one shelf, by tenant, within bounds; and what could make room.

    Bytes are taken before anything is copied or written and given back after it is let go of, so
    that the bounds hold at every moment. Not safe across threads.
    """

    __slots__ = (
        "_tails",
        "_tenant_max_bytes",
        "_tenant_tails",
        "blocks",
        "evicted",
        "hit_tokens",
        "level",
        "max_bytes",
        "tenant_bytes",
        "used_bytes",
    )

    def __init__(self, level: Level, max_bytes: int, tenant_max_bytes: int | None) -> None:
        """Make an empty shelf's.

        Raises:
            ValueError: A bound is negative.
        """
        for name, bound in (("max_bytes", max_bytes), ("tenant_max_bytes", tenant_max_bytes or 0)):
            if bound < 0:
                raise ValueError(f"{name} of shelf {level.name.lower()} is {bound}; at least 0")
        self.level = level
        self.max_bytes = max_bytes
        self._tenant_max_bytes = tenant_max_bytes
        self.used_bytes = 0
        self.tenant_bytes: dict[Namespace | None, int] = {}
        """Only of those that have any."""
        self.blocks = 0
        self.evicted: Counter[EvictionReason] = Counter()
        """Blocks that left."""
        self.hit_tokens = 0
        """Tokens that were loaded from it."""
        self._tails = Tails(level)
        self._tenant_tails: dict[Namespace, Tails] = {}
        """A tenant's own, where tenants have bounds."""

    def take(self, tenant: Namespace | None, block_bytes: int) -> bool:
        """Take the bytes of a block, if they are free."""
        if self._over_quota(tenant, block_bytes):
            return False
        if self.used_bytes + block_bytes > self.max_bytes:
            return False
        self.used_bytes += block_bytes
        self.blocks += 1
        self.tenant_bytes[tenant] = self.tenant_bytes.get(tenant, 0) + block_bytes
        return True

    def give_back(self, tenant: Namespace | None, block_bytes: int) -> None:
        """Give back the bytes of a block."""
        self.used_bytes -= block_bytes
        self.blocks -= 1
        left = self.tenant_bytes[tenant] - block_bytes
        if left:
            self.tenant_bytes[tenant] = left
        else:
            del self.tenant_bytes[tenant]
            if tenant is not None:
                self._tenant_tails.pop(tenant, None)

    def offer(self, record: Record) -> None:
        """Note that a block may leave the shelf."""
        self._tails.offer(record)
        tenant = record.root.tenant
        if self._tenant_max_bytes is not None and tenant is not None:
            tails = self._tenant_tails.get(tenant)
            if tails is None:
                tails = self._tenant_tails[tenant] = Tails(self.level)
            tails.offer(record)

    def victim(
        self, tenant: Namespace | None, short_bytes: int, own_short_bytes: int
    ) -> Victim | None:
        """Return what must leave so that a tenant can have some bytes more.

        Its own, if it is its quota that is used up.

        Args:
            tenant: Whose blocks are to come.
            short_bytes: How many are needed, less what others are about to give back.
            own_short_bytes: The same, less what the tenant itself is about to give back.

        Returns:
            ``None``: there is room, or all that could leave is needed.
        """
        if self._over_quota(tenant, own_short_bytes):
            tails = None if tenant is None else self._tenant_tails.get(tenant)
            record = tails.pop() if tails is not None else None
            return None if record is None else Victim(record, "quota")
        if self.used_bytes + short_bytes <= self.max_bytes:
            return None
        record = self._tails.pop()
        return None if record is None else Victim(record, "capacity")

    def _over_quota(self, tenant: Namespace | None, num_bytes: int) -> bool:
        if tenant is None or self._tenant_max_bytes is None:
            return False
        return self.tenant_bytes.get(tenant, 0) + num_bytes > self._tenant_max_bytes
