"""What stands under which name in Redis.

    <prefix>:{feed}:meta        hash: generation, position, history, floor
    <prefix>:{feed}:changes     stream: the change feed; the ids are positions
    <prefix>:{feed}:epochs      sorted set: invalidations whose entries may still be there
    <prefix>:{feed}:sources     hash: current values of named sources
    <prefix>:{feed}:judgements  hash: what was said of hits, by pair
    <prefix>:{feed}:judged      sorted set: in which order
    <prefix>:{feed}:arrivals    stream: which phrased entries came
    <prefix>:{feed}:sweep       who removes what was invalidated
    <prefix>:e:<generation>:<key>   string: facets, then the record
    <prefix>:l:{<name of an entry>} string: who makes the call for it (in the entry's slot)
    <prefix>:i:<gateway>            list: letters to a gateway

What is in braces decides where a name is in a cluster (Redis Cluster Specification, "Hash tags"):
everything about the feed on one node, the entries on all. Nothing about the feed has a time to
live, so that a server which evicts what has one never touches it. Where it did, or was emptied,
there is a new generation, and no entry of the old one is ever found again.

Names have no version: who changes what stands under one changes the name.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from stepwell.core.names import CacheKey

_KEY_CHARACTERS = 43


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of one deployment."""

    prefix: str

    def _of_feed(self, part: str) -> bytes:
        return f"{self.prefix}:{{feed}}:{part}".encode()

    @property
    def meta(self) -> bytes:
        """Hash about the whole."""
        return self._of_feed("meta")

    @property
    def changes(self) -> bytes:
        """Stream of changes."""
        return self._of_feed("changes")

    @property
    def epochs(self) -> bytes:
        """Sorted set of invalidations, by position."""
        return self._of_feed("epochs")

    @property
    def sources(self) -> bytes:
        """Hash of messages, by namespace and name."""
        return self._of_feed("sources")

    @property
    def judgements(self) -> bytes:
        """Hash of messages, by pair."""
        return self._of_feed("judgements")

    @property
    def judged(self) -> bytes:
        """Sorted set of pairs: right ones first, oldest first."""
        return self._of_feed("judged")

    @property
    def arrivals(self) -> bytes:
        """Stream of keys and expiry times."""
        return self._of_feed("arrivals")

    @property
    def sweep(self) -> bytes:
        """Lease of who sweeps."""
        return self._of_feed("sweep")

    def entry(self, generation: bytes, key: CacheKey) -> bytes:
        """Return the name of an entry. Costs half a microsecond."""
        return b"%b%b" % (self.entries(generation), urlsafe_b64encode(key)[:_KEY_CHARACTERS])

    def lease(self, generation: bytes, key: CacheKey) -> bytes:
        """Return the name of the lease on making an entry."""
        return b"%b:l:{%b}" % (self.prefix.encode(), self.entry(generation, key))

    def inbox(self, gateway: str) -> bytes:
        """Return the name of a gateway's letters."""
        return f"{self.prefix}:i:{gateway}".encode()

    def entries(self, generation: bytes) -> bytes:
        """Return what the names of all entries of a generation begin with."""
        return b"%b:e:%b:" % (self.prefix.encode(), generation)


def key_of(name: bytes) -> CacheKey:
    """Return the key that an entry's name ends with. Raises `ValueError` if it does not."""
    return CacheKey(urlsafe_b64decode(name[-_KEY_CHARACTERS:] + b"="))
