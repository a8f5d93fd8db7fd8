"""Builds the calls of a process, and those with whom it shares them."""

from collections.abc import Callable
from pathlib import Path

from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.names import CacheKey
from stepwell.core.ports import EventSink, Paraphrases, SharesCalls, Store
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.fleet import Fleet
from stepwell.pipeline.flight import Flight
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.neighbours import Neighbours

WORKERS_DIRECTORY = "workers"

OpenCircle = Neighbours | Fleet


async def open_flights(
    settings: Settings,
    data_dir: Path | None,
    store: Store,
    exact: ExactLayer,
    paraphrases: Paraphrases | None,
    *,
    clock: Clock,
    events: EventSink,
) -> tuple[Flights, tuple[OpenCircle, ...]]:
    """Return the flights of this process, and the circles they are shared in; close those."""

    def find(key: CacheKey) -> Flight | None:
        return flights.under_way(key)

    circles = await _open_circles(settings, data_dir, store, clock, find)
    flights = Flights(
        exact,
        clock=clock,
        events=events,
        circles=circles,
        paraphrases=paraphrases,
        max_wait_seconds=settings.single_flight.max_wait_seconds,
    )
    return flights, circles


async def _open_circles(
    settings: Settings,
    data_dir: Path | None,
    store: Store,
    clock: Clock,
    find: Callable[[CacheKey], Flight | None],
) -> tuple[OpenCircle, ...]:
    """Return the circles, nearest first."""
    circles: list[OpenCircle] = []
    is_alone = settings.server.workers == 1 or not settings.stores.disk.enabled
    if data_dir is not None and not is_alone:
        neighbours = Neighbours(data_dir / WORKERS_DIRECTORY, find)
        await neighbours.start()
        circles.append(neighbours)
    if isinstance(store, SharesCalls):
        lease_seconds = settings.single_flight.lease_seconds
        fleet = Fleet(store.leases, store.post, find, clock=clock, lease_seconds=lease_seconds)
        fleet.start()
        circles.append(fleet)
    return tuple(circles)
