"""The laws of stores and feeds, for every store of the house."""

import itertools
from pathlib import Path

from stepwell.core.events import Event
from stepwell.stores.disk.store import DiskStore
from stepwell.testing.clock import HandClock
from stepwell.testing.store_contract import check_feed, check_store


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


async def open_disk(directory: Path) -> DiskStore:
    """Open a disk store that is large enough for the checks."""
    return await DiskStore.open(
        directory, max_bytes=2**20, clock=HandClock(), events=Ignored(), timeout_seconds=10.0
    )


def test_disk_store(tmp_path: Path) -> None:
    """The disk store agrees with a dict."""
    numbers = itertools.count()
    check_store(lambda: open_disk(tmp_path / str(next(numbers))))


def test_disk_feed(tmp_path: Path) -> None:
    """One handle of a disk store follows another."""
    numbers = itertools.count()

    async def open_twice() -> tuple[DiskStore, DiskStore]:
        directory = tmp_path / str(next(numbers))
        return await open_disk(directory), await open_disk(directory)

    check_feed(open_twice)
