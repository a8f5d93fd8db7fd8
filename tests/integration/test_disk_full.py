"""The disk store on a disk that is full or cannot be written to."""

import asyncio
import os
from pathlib import Path

import pytest
from support.mount import mount

from stepwell.core.entry import Entry, Selector
from stepwell.core.errors import StoreFull, StoreUnavailable
from stepwell.core.events import Event
from stepwell.stores.disk.store import DiskStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


async def open_store(directory: Path) -> DiskStore:
    return await DiskStore.open(
        directory, max_bytes=2**27, clock=HandClock(), events=Ignored(), timeout_seconds=10.0
    )


async def fill(store: DiskStore, stored: list[Entry]) -> None:
    """Put entries for ever, and append to ``stored`` those that were stored."""
    while True:
        entry = make_entry(str(len(stored)), body=bytes(20_000))
        await store.put(entry)
        stored.append(entry)


async def test_full_disk(small_disk: Path) -> None:
    """A full disk refuses puts and still answers gets; once there is space, puts work again."""
    store = await open_store(small_disk)
    stored: list[Entry] = []
    with pytest.raises(StoreFull, match="no space left"):
        await fill(store, stored)
    assert len(stored) > 10
    for entry in stored:
        assert await store.get(entry.key) == entry
    with pytest.raises(StoreFull):
        await store.put(make_entry("still full", body=bytes(200_000)))
    await asyncio.to_thread(mount, "-o", "remount,size=12m", str(small_disk))
    assert await store.put(make_entry("space again", body=bytes(200_000)))
    assert await store.count(Selector()) == len(stored) + 1
    await store.aclose()


async def test_read_only_disk(small_disk: Path) -> None:
    """Opening says which directory cannot be written to and what to do; later it just works."""
    store = await open_store(small_disk / "store")
    await store.put(make_entry())
    await store.aclose()
    await asyncio.to_thread(mount, "-o", "remount,ro", str(small_disk))
    with pytest.raises(StoreUnavailable, match=r"disk/store: .*choose another directory"):
        await open_store(small_disk / "store")
    await asyncio.to_thread(mount, "-o", "remount,rw", str(small_disk))
    store = await open_store(small_disk / "store")
    assert await store.get(make_entry().key) == make_entry()
    await store.aclose()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to any directory")
async def test_directory_without_permission(tmp_path: Path) -> None:
    """Opening says which directory cannot be written to and what to do."""
    await asyncio.to_thread(tmp_path.chmod, 0o500)
    with pytest.raises(StoreUnavailable, match="make it writable for user id"):
        await open_store(tmp_path)
