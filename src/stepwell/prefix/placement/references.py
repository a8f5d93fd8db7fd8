"""Where the prompts of stored answers were computed, for like questions that come later."""

from collections import OrderedDict
from dataclasses import dataclass

from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.core.names import CacheKey
from stepwell.prefix.placement.region import Region
from stepwell.prefix.placement.replicas import ReplicaName


@dataclass(frozen=True, slots=True)
class Reference:
    """The prompt behind a stored answer."""

    replica: ReplicaName
    """Who computed it."""
    region: Region
    tokens: Tokens

    def shared_tokens(self, region: Region, prompt: Tokens) -> int:
        """Return how many tokens a prompt shares with it, from the first on.

        0 in another region. Costs 1 us a thousand tokens.
        """
        if region != self.region:
            return 0
        same, differs = 0, min(len(prompt), len(self.tokens)) // TOKEN_BYTES + 1
        while differs - same > 1:
            middle = (same + differs) // 2
            some = self.tokens[same * TOKEN_BYTES : middle * TOKEN_BYTES]
            if prompt.startswith(some, same * TOKEN_BYTES):
                same = middle
            else:
                differs = middle
        return same


class References:
    """References by cache key, bounded in bytes; those used longest ago leave.

    A lost one is no loss but of time. One event loop; not thread-safe.
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        """Start empty.

        Args:
            max_bytes: Of all prompts' tokens; the entries around them take some 400 bytes each,
                which count, too.
        """
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[CacheKey, Reference] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: CacheKey, reference: Reference) -> None:
        """Remember a reference, in place of an older one."""
        self.drop(key)
        self._kept[key] = reference
        self._bytes += _size(reference)
        while self._bytes > self._max_bytes:
            self.drop(next(iter(self._kept)))

    def find(self, key: CacheKey) -> Reference | None:
        """Return the reference of an entry, if it is still known."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def drop(self, key: CacheKey) -> None:
        """Forget a reference, if there is one."""
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._bytes -= _size(gone)


def _size(reference: Reference) -> int:
    return len(reference.tokens) + 400
