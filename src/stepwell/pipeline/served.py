"""What the walk hands back: a reply, and what the cache had to do with it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from stepwell.core.entry import Usage
from stepwell.core.events import Result
from stepwell.core.names import CacheKey, Form
from stepwell.core.outcome import Outcome
from stepwell.core.ports import Headers


@dataclass(slots=True)
class Body:
    """A body that is still coming. Close it, whether it was read to the end or not."""

    chunks: AsyncIterator[bytes]
    close: Callable[[], None]


@dataclass(slots=True)
class Served:
    """A reply to one request. Made once per request, also on the hot path, hence not frozen."""

    result: Result
    outcome: Outcome
    """What the layers came to."""
    status: int
    form: Form
    body: bytes | Body
    headers: Headers = ()
    """End-to-end fields of the model server's reply; empty for an answer from the cache."""
    key: CacheKey | None = None
    hit_id: str = ""
    """By which the caller can say whether it was right; of an answer to other words."""
    stored: bool = False
    """The answer was stored, or, of a stream, will be if it comes to a good end."""
    refused: str = ""
    """The write gate that refused a whole answer."""
    age_seconds: float = 0.0
    ttl_seconds: float = 0.0
    """Until the answer expires; negative since it has. Of a hit or a stale answer."""
    usage: Usage | None = None
    """Tokens of a whole answer, where it says."""
    saved_seconds: float = 0.0
    """Upstream time not spent."""
    trail: tuple[str, ...] = ()
    """What every layer said and why, in order."""
