"""Whatever workers do in whatever order, no count is lost, doubled or taken back."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.telemetry.gauges import Levels
from stepwell.telemetry.ledger import read_totals
from stepwell.telemetry.ledger_session import LedgerSession
from stepwell.telemetry.series import Series
from stepwell.testing.clock import HandClock

HITS = Series("stepwell_requests_total", (("outcome", "hit"),))
WORKERS = 3

steps = st.lists(
    st.tuples(
        st.sampled_from(["count", "post", "read", "end", "die"]), st.integers(0, WORKERS - 1)
    ),
    max_size=40,
)


class Server:
    """Workers, and what their ledger should hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock()
        self.sessions = [self.session() for _ in range(WORKERS)]
        self.gone: list[LedgerSession] = []
        self.counted = [0] * WORKERS
        self.posted = [0] * WORKERS
        self.left_by_gone = 0
        self.shown = 0.0

    def session(self) -> LedgerSession:
        return LedgerSession(self.path, "boot", self.clock)

    def count(self, worker: int) -> None:
        self.counted[worker] += 1

    def post(self, worker: int) -> None:
        self.sessions[worker].post({HITS: self.counted[worker]}, {})
        self.posted[worker] = self.counted[worker]

    def read(self, worker: int) -> None:
        reading = self.sessions[worker].read({HITS: self.counted[worker]}, Levels({}, {}))
        self.posted[worker] = self.counted[worker]
        hits = reading.counters.get(HITS, 0)
        assert hits == self.expected()
        assert hits >= self.shown
        self.shown = hits

    def end(self, worker: int) -> None:
        self.sessions[worker].close({HITS: self.counted[worker]})
        self.posted[worker] = self.counted[worker]
        self.die(worker)

    def die(self, worker: int) -> None:
        self.left_by_gone += self.posted[worker]
        self.counted[worker] = self.posted[worker] = 0
        self.gone.append(self.sessions[worker])
        self.sessions[worker] = self.session()

    def expected(self) -> int:
        return sum(self.posted) + self.left_by_gone


@settings(max_examples=25, deadline=None)
@given(steps)
def test_sums(order: Sequence[tuple[str, int]]) -> None:
    """A reading has all that was posted and its own worker's rest, and never less than before."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory) / "ledger.sqlite")
        server.post(0)
        for step, worker in order:
            getattr(server, step)(worker)
        assert read_totals(server.path).values.get(HITS, 0) == server.expected()
        for session in (*server.sessions, *server.gone):
            assert session.take_problems() == []
            session.close({})
