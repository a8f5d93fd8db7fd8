"""Opens those with whom a process shares calls."""

from collections.abc import Callable
from pathlib import Path

from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.names import CacheKey
from stepwell.core.ports import SharesCalls, Store
from stepwell.pipeline.fleet import Fleet
from stepwell.pipeline.flight import Flight
from stepwell.pipeline.neighbours import Neighbours

WORKERS_DIRECTORY = "workers"

OpenCircle = Neighbours | Fleet


async def open_circles(
    settings: Settings,
    data_dir: Path | None,
    store: Store,
    clock: Clock,
    find: Callable[[CacheKey], Flight | None],
) -> tuple[OpenCircle, ...]:
    """Return the circles of this process, nearest first. ``find`` returns its flight for a key."""
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
