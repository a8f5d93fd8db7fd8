"""The disk store shared by processes, some of which are killed."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from stepwell.core.changes import Change, Invalidated, Replaced, SourceMoved
from stepwell.core.entry import Selector
from stepwell.core.events import Event
from stepwell.core.names import Position
from stepwell.stores.disk.store import DiskStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_namespace

WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from stepwell.core.entry import Selector
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.store import DiskStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_namespace

class Ignored:
    def emit(self, event): pass

def say(words):
    print(words, flush=True)

async def put_for_ever(store, prefix):
    number = 0
    while True:
        if await store.put(make_entry(f"{prefix}.{number}", body=bytes(2_000))):
            say(f"{prefix}.{number}")
        number += 1

async def obey(store, verb, name):
    match verb:
        case "put":
            await store.read()
            say(await store.put(make_entry(name, as_of=store.position())))
        case "get":
            say(await store.get(make_key(name)) is not None)
        case "invalidate":
            say(await store.invalidate(Selector(model=name)))
        case "move":
            say(await store.move_source(make_namespace("tenant"), "faq", name))
        case "move-many":
            moves = [store.move_source(make_namespace("tenant"), name, str(n)) for n in range(300)]
            say(sum(await asyncio.gather(*moves)))
        case "put-many":
            entries = [make_entry(f"{name}.{number}") for number in range(200)]
            say(sum(await asyncio.gather(*map(store.put, entries))))
        case "load":
            await asyncio.gather(*(put_for_ever(store, f"{name}.{task}") for task in range(8)))
        case "die-before-announcing":
            Generation.raise_to = lambda self, position: os.kill(os.getpid(), signal.SIGKILL)
            await store.invalidate(Selector(model=name))

async def main():
    store = await DiskStore.open(
        Path(sys.argv[1]), max_bytes=2**27, clock=HandClock(), events=Ignored(),
        timeout_seconds=10.0,
    )
    say("open")
    while line := await asyncio.to_thread(sys.stdin.readline):
        await obey(store, *line.split())
    await store.aclose()

asyncio.run(main())
"""


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


async def open_store(directory: Path, *, poll_seconds: float = 60.0) -> DiskStore:
    """Open a store that by default does not poll within a test."""
    return await DiskStore.open(
        directory,
        max_bytes=2**27,
        clock=HandClock(),
        events=Ignored(),
        timeout_seconds=10.0,
        poll_seconds=poll_seconds,
    )


class Worker:
    """A store in another process, told what to do line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, verb: str, name: str) -> str:
        self.tell(verb, name)
        return await self.line()

    def tell(self, verb: str, name: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{verb} {name}\n".encode())

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def start_worker(directory: Path) -> AsyncIterator[Worker]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        WORKER,
        str(directory),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    worker = Worker(process)
    try:
        assert await worker.line() == "open"
        yield worker
    finally:
        # Ends by itself when its input ends; a killed one has ended already.
        await process.communicate(b"")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while not condition():  # noqa: ASYNC110  (another process makes it true)
            await asyncio.sleep(0.005)


async def test_put_is_seen_by_the_other_process(tmp_path: Path) -> None:
    """What one process stored, another finds as soon as the put has returned; both ways."""
    store = await open_store(tmp_path)
    async with start_worker(tmp_path) as worker:
        assert await worker.ask("get", "here") == "False"
        await store.put(make_entry("here"))
        assert await worker.ask("get", "here") == "True"
        assert await worker.ask("put", "there") == "True"
        assert await store.get(make_key("there")) == make_entry("there")
    await store.aclose()


async def test_changes_are_seen_by_the_other_process_at_once(tmp_path: Path) -> None:
    """When a change has returned in one process, the other is behind, without waiting."""
    store = await open_store(tmp_path)
    await store.put(make_entry())
    async with start_worker(tmp_path) as worker:
        assert not store.behind()
        assert await worker.ask("invalidate", "model") == "1"
        assert store.behind()
        assert list(await store.read()) == [Invalidated(Position(1), Selector(model="model"))]
        assert not store.behind()
        assert await worker.ask("move", "v2") == "True"
        assert store.behind()
        assert list(await store.read()) == [
            SourceMoved(Position(2), make_namespace("tenant"), "faq", "v2")
        ]
        assert await store.put(make_entry(as_of=2))
        assert not store.behind()
        assert await worker.ask("put", "question") == "True"
        assert store.behind()
        assert list(await store.read()) == [Replaced(Position(3), make_key("question"))]
    await store.aclose()


async def test_answer_on_its_way_when_another_process_invalidates(tmp_path: Path) -> None:
    """An answer asked for before an invalidation is not stored after it."""
    store = await open_store(tmp_path)
    async with start_worker(tmp_path) as worker:
        asked_at = store.position()
        await worker.ask("invalidate", "model")
        assert not await store.put(make_entry(as_of=asked_at))
        assert await store.put(make_entry("other", model="other", as_of=asked_at))
    await store.aclose()


async def test_killed_writer_loses_nothing_it_promised(tmp_path: Path) -> None:
    """Whatever a put has returned for is there after ``kill -9`` in the middle of the load."""
    async with start_worker(tmp_path) as worker:
        worker.tell("load", "x")
        promised = [await worker.line() for _ in range(300)]
        worker.process.send_signal(signal.SIGKILL)
        while line := await worker.line():
            promised.append(line)
        assert await worker.process.wait() == -signal.SIGKILL
    # The last line may have been cut short.
    promised.pop()
    store = await open_store(tmp_path)
    for name in promised:
        assert await store.get(make_key(name)) == make_entry(name, body=bytes(2_000))
    assert await store.put(make_entry("after"))
    await store.aclose()


async def test_killed_neighbour_does_not_disturb(tmp_path: Path) -> None:
    """A store that is open while another process is killed goes on as if nothing happened."""
    store = await open_store(tmp_path)
    async with start_worker(tmp_path) as worker:
        worker.tell("load", "x")
        first = await worker.line()
        await asyncio.gather(*(store.put(make_entry(f"own {number}")) for number in range(100)))
        worker.process.send_signal(signal.SIGKILL)
        await worker.process.wait()
        for number in range(100):
            assert await store.get(make_key(f"own {number}")) is not None
        assert await store.get(make_key(first)) is not None
        assert await store.put(make_entry("after"))
    await store.aclose()


async def die_before_announcing(directory: Path) -> None:
    """Have a process invalidate ``model`` and be killed between commit and announcement."""
    async with start_worker(directory) as worker:
        worker.tell("die-before-announcing", "model")
        assert await worker.process.wait() == -signal.SIGKILL


UNANNOUNCED = [Invalidated(Position(1), Selector(model="model"))]


async def test_poll_finds_what_was_not_announced(tmp_path: Path) -> None:
    """Those that are open learn of it by their poll."""
    store = await open_store(tmp_path, poll_seconds=0.02)
    await die_before_announcing(tmp_path)
    await until(store.behind)
    assert list(await store.read()) == UNANNOUNCED
    await store.aclose()


async def test_opening_announces_what_was_not(tmp_path: Path) -> None:
    """Who opens the store knows of it, and announces it to the others."""
    store = await open_store(tmp_path)
    await die_before_announcing(tmp_path)
    assert not store.behind()
    late = await open_store(tmp_path)
    assert (late.position(), late.behind()) == (1, False)
    assert store.behind()
    assert list(await store.read()) == UNANNOUNCED
    await store.aclose()
    await late.aclose()


async def test_reading_announces_what_was_not(tmp_path: Path) -> None:
    """Who reads it, before anybody said that there is something to read, announces it."""
    reader, other = await open_store(tmp_path), await open_store(tmp_path)
    await die_before_announcing(tmp_path)
    assert list(await reader.read()) == UNANNOUNCED
    assert other.behind()
    await reader.aclose()
    await other.aclose()


async def test_many_processes_start_and_write_at_once(tmp_path: Path) -> None:
    """Processes that all find an empty directory make one store, and all their puts succeed."""

    async def work(name: str) -> str:
        async with start_worker(tmp_path) as worker:
            return await worker.ask("put-many", name)

    assert await asyncio.gather(*map(work, "abc")) == ["200"] * 3
    store = await open_store(tmp_path)
    assert await store.count(Selector()) == 600
    await store.aclose()


async def test_opening_while_changes_are_made(tmp_path: Path) -> None:
    """Who opens the store in the middle of changes does not make others lose the thread."""
    store = await open_store(tmp_path)
    changes: list[Change] = []
    async with start_worker(tmp_path) as worker:
        done = asyncio.create_task(worker.ask("move-many", "faq"))
        while not done.done():
            await (await open_store(tmp_path)).aclose()
            changes += await store.read()
        assert await done == "300"
    changes += await store.read()
    assert [change.position for change in changes] == list(range(1, 301))
    assert {type(change) for change in changes} == {SourceMoved}
    await store.aclose()
