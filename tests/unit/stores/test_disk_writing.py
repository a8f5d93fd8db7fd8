"""What a commit is flushed for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.core.clock import SystemClock
from stepwell.core.errors import StoreError
from stepwell.stores.disk.announced import Announced
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.jobs import Job
from stepwell.stores.disk.schema import TABLES
from stepwell.stores.disk.writing import Write, Writing

NORMAL, FULL = 1, 2


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    """A store's writing side, without its thread."""
    files = Files(tmp_path / "entries")
    files.make_directory()
    generation = Generation(files.generation)
    clock = SystemClock()
    database = Database(files, TABLES, clock, beside=Announced(generation))
    writing = Writing(database, generation, clock, max_bytes=1 << 20)
    yield writing
    writing.close()
    generation.close()


def level(write: Write) -> int:
    """Return how the transaction that is going on will be flushed."""
    (value,) = write.connection.execute("PRAGMA synchronous").fetchone()
    return int(value)


def fails(_write: Write) -> int:
    """Fail."""
    raise StoreError("no")


async def test_only_what_must_outlast_a_power_cut_is_flushed(writing: Writing) -> None:
    """One such call is enough for its batch, and the next batch is judged anew."""
    loop = asyncio.get_running_loop()

    def handle(*calls: tuple[object, bool]) -> list[object]:
        jobs: list[Job[Write]] = [
            Job(work, loop.create_future(), 0, durable, patient=False)  # type: ignore[arg-type]
            for work, durable in calls
        ]
        writing.handle(jobs)
        return [job.result if job.error is None else type(job.error) for job in jobs]

    assert handle((level, False)) == [NORMAL]
    assert handle((level, False), (level, True)) == [FULL, FULL]
    assert handle((level, True)) == [FULL]
    assert handle((fails, True)) == [StoreError]
    assert handle((level, False)) == [NORMAL]
    assert handle((fails, True)) == [StoreError]
    assert handle((level, True)) == [FULL]
    assert handle((level, False)) == [NORMAL]
