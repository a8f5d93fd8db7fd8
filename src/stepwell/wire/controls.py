"""What a caller may say about caching, in headers or in the body."""

import math
from dataclasses import dataclass

from stepwell.core.entry import SourceValue


@dataclass(frozen=True, slots=True)
class Directives:
    """Cache directives of one request, from ``Cache-Control`` and the body's ``cache`` object.

    Both may be given; the stricter of two values counts. Callers can only tighten what the
    request class allows.
    """

    no_cache: bool = False
    """Do not answer from the cache; the new answer may be stored (RFC 9111, 5.2.1.4)."""
    no_store: bool = False
    """Do not store the answer; one already stored may be served (RFC 9111, 5.2.1.5)."""
    only_if_cached: bool = False
    """Answer from the cache or with 504 (RFC 9111, 5.2.1.7)."""
    max_age_seconds: float = math.inf
    """Serve only answers at most this old (``max-age``, ``s-maxage``)."""
    min_fresh_seconds: float = 0.0
    """Serve only answers that stay fresh at least this long."""
    max_stale_seconds: float = 0.0
    """Serve answers expired at most this long, as far as the class allows; ``inf`` if bare."""
    ttl_seconds: float = math.inf
    """Store the answer at most this long (``ttl`` in the body)."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Everything a request says to Stepwell rather than to the model server."""

    directives: Directives = Directives()
    sub_namespace: str = ""
    """Narrows the tenant's namespace (``cache.namespace``); never leaves it."""
    request_class: str | None = None
    sources: tuple[SourceValue, ...] = ()
    """Named sources the answer depends on, with their current values."""
    tags: tuple[str, ...] = ()
