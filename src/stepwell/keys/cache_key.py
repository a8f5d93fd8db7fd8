"""The cache key, SHA-256 over everything that decides an answer, and the partition, over the same
without the words that may be put otherwise.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.core.entry import Phrasing
from stepwell.core.names import CacheKey, Endpoint, Namespace, Partition
from stepwell.core.ports import Headers
from stepwell.keys.canonical import Dialect, KeyRules, canonical_body
from stepwell.keys.parts import join_parts
from stepwell.keys.phrase import take_phrase
from stepwell.keys.text import normalise

KEY_SCHEMA = b"stepwell/key/1"
PARTITION_SCHEMA = b"stepwell/partition/1"
"""They change whenever the same request would get another canonical form."""


@dataclass(frozen=True, slots=True)
class KeyScheme:
    """How requests to one upstream get their keys. Pure; safe everywhere."""

    upstream: str
    """Identity of the upstream: other servers give other answers."""
    rules: KeyRules = field(default_factory=KeyRules)
    _key_prefix: bytes = field(init=False, repr=False, compare=False)
    _partition_prefix: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scheme = (self.upstream.encode(), self.rules.fingerprint())
        object.__setattr__(self, "_key_prefix", join_parts((KEY_SCHEMA, *scheme)))
        object.__setattr__(self, "_partition_prefix", join_parts((PARTITION_SCHEMA, *scheme)))

    def key(
        self,
        namespace: Namespace,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        *,
        headers: Headers = (),
        query: str = "",
    ) -> CacheKey:
        """Return the key of one request; the same in every process and after every restart.

        Args:
            namespace: Whose request it is.
            endpoint: Which operation.
            body: The parsed body, without what was meant for Stepwell.
            headers: The header fields sent on that can change an answer, sorted.
            query: The query string sent on.

        Raises:
            RequestError: The body cannot be written as JSON.
        """
        return CacheKey(self._digest(self._key_prefix, namespace, endpoint, body, headers, query))

    def phrasing(
        self,
        namespace: Namespace,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        *,
        headers: Headers = (),
        query: str = "",
    ) -> Phrasing | None:
        """Return the words that may be put otherwise and their partition; ``None`` if none may.

        Two requests in one partition differ in nothing but these words, the temperature, and
        what never counts. Takes what `key` takes, and costs as much.

        Raises:
            RequestError: The body cannot be written as JSON.
        """
        taken = take_phrase(endpoint, body)
        if taken is None:
            return None
        rest = self._digest(self._partition_prefix, namespace, endpoint, taken.rest, headers, query)
        temperature = taken.temperature
        if temperature is None and self.rules.dialect is Dialect.OPENAI:
            temperature = _OPENAI_TEMPERATURE
        text = normalise(taken.text, self.rules.text_steps)
        return Phrasing(Partition(rest), text, temperature)

    def _digest(
        self,
        prefix: bytes,
        namespace: Namespace,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        headers: Headers,
        query: str,
    ) -> bytes:
        fields = [text.encode() for header in headers for text in header]
        parts = (
            prefix,
            namespace,
            endpoint.encode(),
            join_parts(fields),
            query.encode(),
            canonical_body(endpoint, body, self.rules),
        )
        return hashlib.sha256(join_parts(parts)).digest()


_OPENAI_TEMPERATURE = 1.0
"""What it documents as its default."""
