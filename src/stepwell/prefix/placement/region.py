"""Which requests can meet each other's prefixes inside one replica."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Region:
    """What a replica mixes into its prefixes besides tokens; it has one model, so not that.

    Coarser than `core.kv.KvScope`, which says when KV is valid: this only foretells what a replica
    will share. One that gets no salts shares between tenants, so they are in one region there.
    """

    adapter: str | None = None
    """As the replica names it."""
    salt: str | None = field(default=None, repr=False)

    def seed(self) -> bytes:
        """Return what hashes of its prefixes begin with, the same in all gateways."""
        adapter = (self.adapter or "").encode()
        return len(adapter).to_bytes(4, "little") + adapter + (self.salt or "").encode()
