"""The layer over the disk store: what is hot in memory is not what the disk lets go."""

from pathlib import Path

from support.walk import Heard

from stepwell.exact.layer import ExactLayer
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key


async def test_the_disk_keeps_what_memory_serves(tmp_path: Path) -> None:
    """Once it is in memory, an entry is not read from disk any more; it is hot all the same."""
    clock = HandClock()

    async def open_store() -> DiskStore:
        return await DiskStore.open(tmp_path, max_bytes=30_000, clock=clock, events=Heard())

    store = await open_store()
    memory = MemoryStore(Lru(), max_entries=99, max_bytes=1 << 20, clock=clock, events=Heard())
    layer = ExactLayer(memory, store, store, events=Heard())
    for number in range(10):
        entry = make_entry(f"old {number}", body=bytes(1_000))
        layer.keep(entry)
        await layer.share(entry)
    for _ in range(100):
        assert layer.peek(make_key("old 0")) is not None
    await layer.lookup(make_key("unknown"))
    await store.aclose()

    clock.seconds += 60
    store = await open_store()
    for number in range(20):
        await store.put(make_entry(f"new {number}", body=bytes(1_000)))
    left = [number for number in range(10) if await store.get(make_key(f"old {number}"))]
    await store.aclose()
    assert left == [0]
