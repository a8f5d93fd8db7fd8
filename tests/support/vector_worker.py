"""A worker process that adds points to a shared vector index until it has added all of them.

python vector_worker.py DIRECTORY FIRST COUNT
"""

import asyncio
import sys
from pathlib import Path

from stepwell.core.clock import SystemClock
from stepwell.core.names import Position
from stepwell.semantic.index.bounds import Bounds
from support.points import Degradations, make_point, make_vectors, open_index

BOUNDS = Bounds(delta_points=40, ivf_rows=100, nprobe=1_000, fan=2)
"""So small that it writes and merges all the time."""

LATER = 1e12


def say(line: str) -> None:
    """Write a line for the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def work(directory: Path, first: int, count: int) -> int:
    """Add, maintain, and say after each flush how many are on disk."""
    events = Degradations()
    index = await open_index(directory, SystemClock(), events=events, bounds=BOUNDS)
    vectors = make_vectors(first + count)
    for number in range(first, first + count):
        index.add(make_point(str(number), expires_at=LATER), vectors[number])
        if number % 20 == 19:
            await index.maintain(Position(0))
            written = number + 1 - first - index.contents().delta_points
            say(str(written))
    await index.flush(Position(0))
    async with asyncio.timeout(60):
        while index.is_merging:
            await index.maintain(Position(0))
            await asyncio.sleep(0.01)
    say("\n".join(["done", *events.errors]))
    await index.aclose()
    return len(events.errors)


if __name__ == "__main__":
    sys.exit(asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
