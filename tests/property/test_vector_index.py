"""Workers that share an index agree with a plain list of points, whatever happens between."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.points import IDENTITY, Degradations, make_group, make_id, make_index, make_point
from support.points import make_vectors as unit_vectors

from stepwell.core.entry import Selector
from stepwell.core.names import Arrival, CacheKey, Namespace, Position
from stepwell.core.points import Point
from stepwell.core.vectors import Vector
from stepwell.semantic.index import merging
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.progress import Progress
from stepwell.testing.clock import HandClock

T = TypeVar("T")

NAMES = [f"p{number}" for number in range(12)]
PARTITIONS = ["one", "two"]
TAGS = ["red", "blue"]
MODELS = ["small", "large"]
VECTORS = unit_vectors(24, seed=3)
ALL = 64

# Inverted files at once, and read to the end, so that they are as exact as a scan.
BOUNDS = Bounds(ivf_rows=6, nprobe=1_000)


@dataclass(frozen=True)
class Put:
    """An entry was filled."""

    point: Point
    vector: Vector
    arrival: int


@dataclass(frozen=True)
class Gone:
    """Entries were invalidated."""

    selector: Selector
    position: Position


class Worker:
    """An index, and how far it has read."""

    def __init__(self, directory: Path, clock: HandClock) -> None:
        self.events = Degradations()
        self.index: VectorIndex = make_index(directory, clock, events=self.events, bounds=BOUNDS)
        self.at = 0
        self.removed: list[Gone] = []


selectors = st.one_of(
    st.sampled_from(NAMES).map(lambda name: Selector(key=CacheKey(make_id(name)))),
    st.sampled_from(TAGS).map(lambda tag: Selector(tag=tag)),
    st.sampled_from(MODELS).map(lambda model: Selector(model=model)),
    st.builds(
        lambda model, tag: Selector(model=model, tag=tag),
        st.sampled_from(MODELS),
        st.sampled_from(TAGS),
    ),
    st.sampled_from([1, 2]).map(lambda n: Selector(namespace=Namespace(n.to_bytes(16)))),
    st.just(Selector()),
)
workers = st.sampled_from([0, 1])


class SharedIndex(RuleBasedStateMachine):
    """Two workers, one directory, one store: a list of what was put and what was removed."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.clock = HandClock(0.0)
        self.log: list[Put | Gone] = []
        self.position = 0
        self.arrivals = 0
        self.alive: dict[CacheKey, Put] = {}
        self.workers = [Worker(self.directory, self.clock) for _ in range(2)]
        for worker in self.workers:
            self.run(worker.index.refresh())

    def teardown(self) -> None:
        """Remove the directory."""
        assert [e for worker in self.workers for e in worker.events.errors] == []
        self.runner.close()
        shutil.rmtree(self.directory)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    # -- the store --------------------------------------------------------------------------

    @rule(
        number=st.integers(0, len(NAMES) - 1),
        vector=st.integers(0, len(VECTORS) - 1),
        seconds=st.sampled_from([5.0, 50.0, 500.0]),
    )
    def put(self, number: int, vector: int, seconds: float) -> None:
        """Fill an entry; no worker knows yet.

        All but vector and expiry follows from the name. (A worker that never saw an entry's second
        version, because it was removed by a tag the first does not have, keeps the first.)
        """
        point = make_point(
            NAMES[number],
            partition=PARTITIONS[number % 2],
            expires_at=self.clock.now() + seconds,
            position=self.position,
            group=make_group(1 + number // 2 % 2, MODELS[number // 4 % 2]),
            tags=tuple(tag for bit, tag in enumerate(TAGS) if number // 3 >> bit & 1),
        )
        before = self.alive.get(point.key)
        if before is not None and before.point.expires_at >= point.expires_at:
            return
        self.arrivals += 1
        self.alive[point.key] = put = Put(point, VECTORS[vector], self.arrivals)
        self.log.append(put)

    @rule(selector=selectors)
    def invalidate(self, selector: Selector) -> None:
        """Remove entries; no worker knows yet."""
        self.position += 1
        self.log.append(Gone(selector, Position(self.position)))
        for key, put in list(self.alive.items()):
            if put.point.is_meant(selector):
                del self.alive[key]

    @rule(seconds=st.sampled_from([1.0, 10.0, 100.0]))
    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.seconds += seconds

    # -- the workers ------------------------------------------------------------------------

    @rule(number=workers, changes=st.integers(1, 6))
    def read(self, number: int, changes: int) -> None:
        """Let a worker read what happened."""
        worker = self.workers[number]
        self._mind_the_gap(worker)
        self._read(worker, worker.at + changes)

    @rule(number=workers, name=st.sampled_from(NAMES))
    def miss(self, number: int, name: str) -> None:
        """A worker notices that an entry is not in the store any more."""
        key = CacheKey(make_id(name))
        if key not in self.alive:
            self.workers[number].index.remove(key)

    @rule(number=workers)
    def refresh(self, number: int) -> None:
        """Let a worker see what the other wrote."""
        self.run(self.workers[number].index.refresh())

    @rule(number=workers)
    def flush(self, number: int) -> None:
        """Let a worker write."""
        worker = self.workers[number]
        self._mind_the_gap(worker)
        read = self._progress(worker)
        self.run(worker.index.flush(read.position, read.arrival))

    @rule(chosen=st.sets(st.integers(0, 5), min_size=1))
    def merge(self, chosen: set[int]) -> None:
        """Merge some segments."""
        segments = Folder(self.directory, IDENTITY).usable_manifest().segments
        names = tuple(s.name for n, s in enumerate(segments) if n in chosen)
        if names:
            job = merging.Job(str(self.directory), IDENTITY, names, 6, self.clock.now())
            assert merging.run(job)

    @rule(number=workers)
    def restart(self, number: int) -> None:
        """Lose all that a worker had in memory."""
        assert self.workers[number].events.errors == []
        self.workers[number] = Worker(self.directory, self.clock)
        self.run(self.workers[number].index.refresh())

    @rule(number=workers)
    def agree(self, number: int) -> None:
        """A worker that has read everything finds exactly what is there."""
        worker = self.workers[number]
        self.run(worker.index.refresh())
        self._mind_the_gap(worker)
        self._read(worker, len(self.log))
        now = self.clock.now()
        for partition in PARTITIONS:
            puts = [
                put
                for put in self.alive.values()
                if put.point.partition == make_id(partition) and put.point.expires_at > now
            ]
            for query in VECTORS[::5]:
                found = worker.index.search(make_id(partition), query, ALL, now)
                assert {(c.key, c.expires_at, c.text) for c in found} == {
                    (put.point.key, put.point.expires_at, put.point.text) for put in puts
                }
                nearest = worker.index.search(make_id(partition), query, 2, now)
                cosines = sorted((max(float(p.vector @ query), 0) for p in puts), reverse=True)
                assert np.allclose([c.similarity for c in nearest], cosines[:2], atol=1e-6)

    @invariant()
    def nothing_dead_is_found(self) -> None:
        """Whatever a worker has read: no expired point, nor one it knows to be removed."""
        now = self.clock.now()
        for worker in self.workers:
            for partition in PARTITIONS:
                found = worker.index.search(make_id(partition), VECTORS[0], ALL, now)
                assert len({c.key for c in found}) == len(found)
                for candidate in found:
                    assert candidate.expires_at > now
                    point = self._point(candidate.key, candidate.position, candidate.expires_at)
                    assert point.partition == make_id(partition)
                    assert not any(
                        gone.position > point.position and point.is_meant(gone.selector)
                        for gone in worker.removed
                    )

    def _point(self, key: CacheKey, position: int, expires_at: float) -> Point:
        return next(
            change.point
            for change in self.log
            if isinstance(change, Put)
            and (change.point.key, change.point.position, change.point.expires_at)
            == (key, position, expires_at)
        )

    def _mind_the_gap(self, worker: Worker) -> None:
        """Begin again where the worker's view is complete, and close its gap."""
        while (gap := worker.index.gap) is not None:
            reached = worker.at
            worker.at = sum(self._is_in(change, gap.after) for change in self.log)
            self._read(worker, max(reached, worker.at))
            worker.index.close_gap(gap)

    def _is_in(self, change: Put | Gone, progress: Progress) -> bool:
        if isinstance(change, Put):
            return change.arrival <= progress.arrival
        return change.position <= progress.position

    def _read(self, worker: Worker, until: int) -> None:
        for change in self.log[worker.at : until]:
            if isinstance(change, Gone):
                worker.index.remove_where(change.selector, change.position)
                worker.removed.append(change)
            elif self.alive.get(change.point.key) is change:
                worker.index.add(change.point, change.vector)
        worker.at = max(worker.at, min(until, len(self.log)))

    def _progress(self, worker: Worker) -> Progress:
        read = self.log[: worker.at]
        return Progress(
            Position(max((c.position for c in read if isinstance(c, Gone)), default=0)),
            Arrival(max((c.arrival for c in read if isinstance(c, Put)), default=0)),
        )


TestSharedIndex = SharedIndex.TestCase
TestSharedIndex.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
