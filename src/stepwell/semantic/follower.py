"""Keeps the semantic layer in step with the store: what others put there, what goes, what is said.

What this worker makes itself it learns at once; this is for the rest: other workers' entries within
a poll, and at the start all that came after the index was written down.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, assert_never

from stepwell.core.changes import Change, Invalidated, Judged, Lost, Replaced, SourceMoved
from stepwell.core.errors import EmbeddingError, StoreError
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival
from stepwell.core.ports import Arrivals, EventSink, Judgements
from stepwell.semantic.denials import Denials
from stepwell.semantic.layer import SemanticLayer

POLL_SECONDS = 0.25
_AT_ONCE = 200
_FIRST = Arrival(0)
_PAUSE_SECONDS = 1.0
"""After a failure; so long an embedder that starts is left in peace."""


class Removals(Protocol):
    """The part of the index that obeys invalidations."""

    def obey(self, change: Invalidated) -> None:
        """Forget the points of entries that are gone."""
        ...


class FollowedStore(Arrivals, Judgements, Protocol):
    """What a store says of what came, and of what was said."""


class SemanticFollower:
    """Follows a store. One event loop; `apply` is called by whoever reads the feed."""

    def __init__(
        self,
        layer: SemanticLayer,
        removals: Removals,
        denials: Denials,
        store: FollowedStore,
        *,
        events: EventSink,
        after: Arrival = _FIRST,
        on_progress: Callable[[Arrival], None] = lambda _: None,
    ) -> None:
        """Follow nothing yet.

        Args:
            layer: Learns what came.
            removals: Forgets what went.
            denials: Hears what was said.
            store: What is followed.
            events: Hears of failures.
            after: All up to here is in the index.
            on_progress: Called with the place up to which all is in the index.
        """
        self._layer = layer
        self._removals = removals
        self._denials = denials
        self._store = store
        self._events = events
        self._after = after
        self._on_progress = on_progress
        self._knows_judgements = False
        self._heard: list[Judgement] = []
        """What was said while all that was said is being read."""
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow, in the background."""
        self._following = asyncio.create_task(self._follow())

    async def aclose(self) -> None:
        """Stop."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    def apply(self, change: Change) -> None:
        """Take one change of the feed."""
        match change:
            case Invalidated():
                self._removals.obey(change)
            case Judged(_, judgement):
                if not self._knows_judgements:
                    self._heard.append(judgement)
                self._denials.note(judgement)
            case Lost():
                # What has gone meanwhile is found out when it is to be served.
                self._after = _FIRST
                self._knows_judgements = False
            case Replaced() | SourceMoved():
                pass
            case _:
                assert_never(change)

    async def _follow(self) -> None:
        while True:
            try:
                more = await self._step()
            except (StoreError, EmbeddingError) as error:
                component = "store.disk" if isinstance(error, StoreError) else "semantic.embedder"
                self._events.emit(Degraded(component, str(error)))
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                if not more:
                    await asyncio.sleep(POLL_SECONDS)

    async def _step(self) -> bool:
        """Take what came next; return whether there may be more."""
        if not self._knows_judgements:
            await self._learn_judgements()
        after = self._after
        entries, last = await self._store.arrived(after, _AT_ONCE)
        await self._layer.learn_all(entries)
        if self._after == after:  # else the feed was lost meanwhile
            self._after = last
            self._on_progress(last)
        return len(entries) == _AT_ONCE

    async def _learn_judgements(self) -> None:
        self._heard.clear()
        said = await self._store.judgements()
        # What was said while they were read may be among them, or not: then it comes last.
        self._denials.load([*said, *self._heard])
        self._heard.clear()
        self._knows_judgements = True
