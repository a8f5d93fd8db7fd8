"""What a program keeps for itself where its answers are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepwell.assembly.house import Plan, Surroundings
from stepwell.assembly.own_house import OwnHouse, open_own_house
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.entry import Answer, Entry, Selector
from stepwell.core.names import Endpoint, Form, Namespace, Tier
from stepwell.exact.layer import ExactLayer
from stepwell.keys.memo_key import memo_key
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.targets import Targets

MAX_VALUE_BYTES = 1 << 20
"""Larger values are not kept; as for answers."""

REQUEST_CLASS = "memo"
"""Under which they are counted and can be invalidated."""


@dataclass(frozen=True, slots=True)
class Memo:
    """Values under keys of a program's own, in the tiers of its exact layer.

    They are bounded, expire, are shared and are invalidated as answers are: by tenant, by class
    ``memo``, and by purpose where answers have a model. Safe for many tasks on one event loop, not
    across threads.
    """

    exact: ExactLayer
    clock: Clock
    namespace: Namespace
    purpose: str
    """What tells these from the values of others."""
    ttl_seconds: float
    """How long a value is kept."""

    async def get(self, parts: Sequence[str]) -> bytes | None:
        """Return what is kept under ``parts``, or ``None``; a store that fails has nothing.

        Cost: a few microseconds in memory, else one read of the store.
        """
        found = await self.find(parts)
        return None if found is None else found[0]

    async def find(self, parts: Sequence[str]) -> tuple[bytes, Tier] | None:
        """As `get`, with the tier that had it."""
        found = await self.exact.lookup(memo_key(self.namespace, self.purpose, parts))
        if found is None:
            return None
        entry, tier = found
        return (entry.answer.body, tier) if self.clock.now() < entry.expires_at else None

    async def put(self, parts: Sequence[str], value: bytes) -> None:
        """Keep ``value``, in place of what was there. Returns when others can see it.

        Values over `MAX_VALUE_BYTES` are not kept. A store that fails is counted, not told of.

        Args:
            parts: Everything the value depends on.
            value: JSON.
        """
        if len(value) > MAX_VALUE_BYTES:
            return
        now = self.clock.now()
        entry = Entry(
            key=memo_key(self.namespace, self.purpose, parts),
            namespace=self.namespace,
            endpoint=Endpoint.CHAT,  # No request leads here: the key is of another kind.
            model=self.purpose,
            request_class=REQUEST_CLASS,
            answer=Answer(Form.JSON, value),
            created_at=now,
            expires_at=now + self.ttl_seconds,
            keep_until=now + self.ttl_seconds,
            as_of=self.exact.position(),
        )
        if self.exact.keep(entry):
            await self.exact.share(entry)

    async def clear(self) -> int:
        """Remove all values of this purpose and tenant, everywhere; return how many.

        Raises:
            StoreError: It could not be done everywhere.
        """
        meant = Selector(namespace=self.namespace, model=self.purpose, request_class=REQUEST_CLASS)
        return await self.exact.invalidate(meant)


@dataclass(frozen=True, slots=True)
class OwnMemo:
    """A memo in a house of its own, for programs that ask their model servers themselves."""

    memo: Memo
    _own: OwnHouse

    @classmethod
    async def open(
        cls,
        settings: Settings,
        data_dir: Path | None,
        tenant: str,
        *,
        purpose: str,
        ttl_seconds: float,
    ) -> "OwnMemo":
        """Open the stores that ``settings`` describe; their ``upstreams`` do not count.

        Args:
            settings: Checked.
            data_dir: Where values are kept; ``None``: in memory, or in the Redis of the settings.
            tenant: Whose values these are.
            purpose: What tells them from the values of others.
            ttl_seconds: How long each is kept.

        Raises:
            ConfigError: A setting cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        secret = secret_of(settings, data_dir)
        plan = Plan(settings, data_dir, secret)
        own = await open_own_house(plan, _no_targets, by_meaning=False)
        own.house.start_posting()
        namespace = Tenant(f"name:{tenant}", secret).namespace()
        memo = Memo(own.house.exact, own.house.clock, namespace, purpose, ttl_seconds)
        return cls(memo, own)

    async def aclose(self) -> None:
        """Write what is pending and close the stores."""
        await self._own.aclose()


def _no_targets(_plan: Plan, _around: Surroundings) -> Targets:
    return Targets([])
