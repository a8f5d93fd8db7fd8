"""Names that must not be swapped, and the closed sets of words used as values."""

from enum import StrEnum
from typing import Literal, NewType

CacheKey = NewType("CacheKey", bytes)
"""SHA-256 of everything that decides an answer; 32 bytes. Made only by `stepwell.keys`."""

Namespace = NewType("Namespace", bytes)
"""Tenant boundary, first part of every key; 16 bytes. Made only by `stepwell.keys`."""

Partition = NewType("Partition", bytes)
"""SHA-256 of everything that decides an answer but the words that may be put otherwise and the
relaxed parameters; 32 bytes. Made only by `stepwell.keys`. Similar words are looked for inside
one partition only."""

PairId = NewType("PairId", bytes)
"""Names two questions of one partition; 16 bytes. Made only by `stepwell.keys`."""

EVERYONE = Namespace(bytes(16))
"""Not a tenant: the owner of a named source that all tenants share."""

Position = NewType("Position", int)
"""Position in a store's change feed. Grows by one with each change; 0 is before the first."""


Arrival = NewType("Arrival", int)
"""Place in the order in which entries came to a store; 0 is before the first. Another order than
the change feed's: most entries are news to nobody."""


class Endpoint(StrEnum):
    """An API operation whose answers can be cached. The value is its path below ``/v1``."""

    CHAT = "chat/completions"
    COMPLETIONS = "completions"
    RESPONSES = "responses"


class Form(StrEnum):
    """How the bytes of an answer are written."""

    JSON = "json"
    """One JSON object."""
    SSE = "sse"
    """Server-sent events, `text/event-stream`."""


class LayerName(StrEnum):
    """A kind of reuse, cheapest first."""

    EXACT = "exact"
    SEMANTIC = "semantic"


Level = Literal["strict", "general", "faq"]
"""How alike two questions must be for one answer, strictest first."""


class Tier(StrEnum):
    """A place where bytes are kept, fastest first."""

    MEMORY = "memory"
    DISK = "disk"
    REDIS = "redis"
    """Shared by several machines."""
