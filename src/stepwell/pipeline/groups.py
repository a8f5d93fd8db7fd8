"""What model servers say of groups of answers in the heads of their replies (RFC 9875)."""

import asyncio

from stepwell.core.entry import Selector
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded
from stepwell.core.names import Namespace
from stepwell.core.ports import EventSink, Headers
from stepwell.exact.layer import ExactLayer
from stepwell.wire.cache_groups import (
    GROUPS,
    INVALIDATION,
    TooManyGroups,
    UnreadableGroups,
    field_of,
    read_groups,
)

OBEY_SECONDS = 0.05
"""How long a reply waits until what it invalidates is gone everywhere; after that it goes on."""

_COMPONENT = "groups"
_FIRST_ERROR = 400


class Groups:
    """Obeys ``Cache-Group-Invalidation``. One event loop; not thread-safe."""

    def __init__(self, exact: ExactLayer, *, events: EventSink) -> None:
        """Know of nothing to do.

        Args:
            exact: Where the answers are.
            events: Hears of fields that cannot be read, and of what could not be invalidated.
        """
        self._exact = exact
        self._events = events
        self._under_way: set[asyncio.Task[None]] = set()

    async def heed(
        self, upstream: str, namespace: Namespace | None, status: int, headers: Headers
    ) -> None:
        """Do what the head of a reply to an unsafe request says. Call it for no other.

        What it invalidates is the caller's alone: entries of ``namespace``, of nobody if that is
        ``None``. An error invalidates nothing, as in RFC 9111, 4.4. A list that is too long means
        all of the namespace's. Waits for at most `OBEY_SECONDS`.
        """
        self._read(upstream, GROUPS, headers)
        groups = self._read(upstream, INVALIDATION, headers)
        if groups == () or namespace is None or status >= _FIRST_ERROR:
            return
        if groups is None:
            selectors = [Selector(namespace=namespace)]
        else:
            selectors = [Selector(namespace=namespace, tag=group) for group in groups]
        task = asyncio.create_task(self._revoke(upstream, selectors))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.wait((task,), timeout=OBEY_SECONDS)

    async def aclose(self) -> None:
        """Finish what is under way."""
        await asyncio.gather(*self._under_way)

    def _read(self, upstream: str, name: str, headers: Headers) -> tuple[str, ...] | None:
        """Return the groups a field names; ``None`` if those are too many."""
        try:
            return read_groups(field_of(headers, name))
        except TooManyGroups:
            return None
        except UnreadableGroups as error:
            self._events.emit(Degraded(_COMPONENT, f"{name} of {upstream} is ignored: {error}"))
            return ()

    async def _revoke(self, upstream: str, selectors: list[Selector]) -> None:
        done = await asyncio.gather(
            *[self._exact.revoke(selector) for selector in selectors], return_exceptions=True
        )
        for error in done:
            if isinstance(error, StoreError):
                told = f"what {upstream} invalidates may still be served: {error}"
                self._events.emit(Degraded(_COMPONENT, told))
                return
