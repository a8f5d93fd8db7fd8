"""The cache key: SHA-256 over everything that decides an answer."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.core.names import CacheKey, Endpoint, Namespace
from stepwell.core.ports import Headers
from stepwell.keys.canonical import KeyRules, canonical_body
from stepwell.keys.parts import join_parts

KEY_SCHEMA = b"stepwell/key/1"
"""Changes whenever the same request would get another canonical form."""


@dataclass(frozen=True, slots=True)
class KeyScheme:
    """How requests to one upstream get their keys. Pure; safe everywhere."""

    upstream: str
    """Identity of the upstream: other servers give other answers."""
    rules: KeyRules = field(default_factory=KeyRules)
    _prefix: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prefix = (KEY_SCHEMA, self.upstream.encode(), self.rules.fingerprint())
        object.__setattr__(self, "_prefix", join_parts(prefix))

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
        fields = [text.encode() for header in headers for text in header]
        parts = (
            self._prefix,
            namespace,
            endpoint.encode(),
            join_parts(fields),
            query.encode(),
            canonical_body(endpoint, body, self.rules),
        )
        return CacheKey(hashlib.sha256(join_parts(parts)).digest())
