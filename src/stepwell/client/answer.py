"""What a program gets back."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson

from stepwell.core.events import Result
from stepwell.pipeline.served import Body, Served


@dataclass(slots=True)
class CachedAnswer:
    """A whole answer, from the cache or from the model server.

    The caller's own; not frozen, which would be a sixth of what a hit costs.
    """

    status: int
    """HTTP status of the model server's reply; 200 for every answer from the cache."""
    body: bytes
    """JSON, as the API defines it."""
    result: Result
    """``hit``, ``stale``, ``miss``, ``collapsed`` or ``bypass``."""
    key: str | None
    """Name of the entry, for `Cache.invalidate`; ``None`` if the request can have none."""
    age_seconds: float
    ttl_seconds: float
    """Until the answer expires; 0 if it is not from the cache."""
    trail: tuple[str, ...] = field(repr=False)
    """What every layer said and why."""
    hit_id: str = field(default="", repr=False)
    """Names the hit for `Cache.feedback`; empty unless it answered other words."""

    @property
    def hit(self) -> bool:
        """Whether no model server was asked for it."""
        return self.result in {Result.HIT, Result.STALE}

    def json(self) -> Any:  # noqa: ANN401  (whatever the model server said)
        """Return the body, parsed."""
        return orjson.loads(self.body)


class AnswerStream:
    """An answer as a stream of server-sent events; iterate it inside ``async with``."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.result = served.result
        self.status = served.status
        self.hit_id = served.hit_id

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; a call that nobody else reads is cancelled."""
        if isinstance(self._served.body, Body):
            self._served.body.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the stream as they come, not cut at events."""
        body = self._served.body
        if isinstance(body, bytes):
            yield body
            return
        async for chunk in body.chunks:
            yield chunk


async def whole(served: Served) -> CachedAnswer:
    """Return ``served`` as a whole answer."""
    body = served.body
    if isinstance(body, Body):
        try:
            body = b"".join([chunk async for chunk in body.chunks])
        finally:
            served_body = served.body
            if isinstance(served_body, Body):
                served_body.close()
    return CachedAnswer(
        status=served.status,
        body=body,
        result=served.result,
        key=served.key.hex() if served.key is not None else None,
        age_seconds=served.age_seconds,
        ttl_seconds=max(0.0, served.ttl_seconds),
        trail=served.trail,
        hit_id=served.hit_id,
    )
