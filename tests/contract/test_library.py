"""The laws of libraries of documents, for every library of the house."""

import itertools
from pathlib import Path

from stepwell.core.events import Event
from stepwell.stores.disk.documents.library import DiskLibrary
from stepwell.testing.clock import HandClock
from stepwell.testing.library_contract import check_library


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


def test_disk_library(tmp_path: Path) -> None:
    """The library in a file agrees with dictionaries."""
    numbers = itertools.count()

    async def make() -> DiskLibrary:
        directory = tmp_path / str(next(numbers))
        return await DiskLibrary.open(directory, clock=HandClock(), events=Ignored())

    check_library(make, max_examples=30)


def test_disk_library_that_keeps_no_vectors(tmp_path: Path) -> None:
    """What does not fit into memory is read for each search; the same comes out."""
    numbers = itertools.count()

    async def make() -> DiskLibrary:
        directory = tmp_path / str(next(numbers))
        return await DiskLibrary.open(directory, clock=HandClock(), events=Ignored(), max_bytes=100)

    check_library(make, max_examples=10)
