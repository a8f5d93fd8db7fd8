"""One worker's dealings with the ledger: what it has posted, and what to do when that fails."""

from collections.abc import Mapping
from pathlib import Path

from stepwell.core.clock import Clock
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded
from stepwell.telemetry.catalogue import JUDGED
from stepwell.telemetry.gauges import Levels
from stepwell.telemetry.ledger import GAUGE_LIFETIME_SECONDS, Ledger, move_aside
from stepwell.telemetry.ledger_file import DamagedLedger
from stepwell.telemetry.ledger_marks import Mark
from stepwell.telemetry.precision import live_precision
from stepwell.telemetry.series import Reading, Series, Values, add_up, increase

RETRY_SECONDS = 5.0
"""Between attempts to open a ledger that could not be used."""

_RENEW_SECONDS = GAUGE_LIFETIME_SECONDS / 3


class LedgerSession:
    """Keeps a ledger in step with one worker's counts. For one thread.

    Never raises: a ledger that cannot be used is a `Degraded` event to be collected with
    `take_problems`, and until it can be used again the counts go on in memory, complete, since
    what is posted is always the difference to what has been posted. A damaged file is renamed
    and a new one begun.
    """

    def __init__(self, path: Path, boot: str, clock: Clock) -> None:
        """Remember where the ledger is; nothing is opened yet. See `Ledger.open`."""
        self._path = path
        self._mark = Mark(path, boot)
        self._clock = clock
        self._ledger: Ledger | None = None
        self._identity = ""
        self._posted: Values = {}
        self._renew_at = self._retry_at = float("-inf")
        self._sums: Values = {}
        self._judged: Values = {}
        self._posted_at_sums: Values = {}
        self._problems: list[Degraded] = []

    def post(self, counters: Values, gauges: Mapping[Series, float]) -> None:
        """Add to the ledger what ``counters`` have grown by; renew ``gauges`` from time to time."""
        now = self._clock.monotonic()
        if now < self._renew_at and not increase(counters, self._posted):
            return
        try:
            ledger = self._usable_ledger(now)
            if ledger is None:
                return
            ledger.add(increase(counters, self._posted), gauges)
        except (StoreError, OSError) as error:
            self._let_go(error, now)
        else:
            self._posted = counters
            self._renew_at = now + _RENEW_SECONDS

    def read(self, counters: Values, levels: Levels) -> Reading:
        """Post, and return the sums over all workers of this boot, and the live precision.

        The precision is that of all boots, so that a restart does not begin its count again.

        Posting first makes every sum shown one that later sums, read by whichever worker,
        cannot fall below. Without a usable ledger the sums are the last ones it gave, plus
        what this worker has counted since.
        """
        self.post(counters, levels.own)
        other_gauges: Values = {}
        if self._ledger is not None:
            try:
                self._sums = self._ledger.counters()
                self._judged = self._ledger.totals_of(JUDGED.name)
                self._posted_at_sums = self._posted
                other_gauges = self._ledger.other_gauges()
            except StoreError as error:
                self._let_go(error, self._clock.monotonic())
        since = increase(counters, self._posted_at_sums)
        gauges = add_up(levels.own, other_gauges) | levels.shared
        return Reading(
            counters=add_up(self._sums, since),
            gauges=gauges | live_precision(add_up(self._judged, since)),
        )

    def take_problems(self) -> list[Degraded]:
        """Return what went wrong since the last call."""
        problems, self._problems = self._problems, []
        return problems

    def close(self, counters: Values) -> None:
        """Post a last time, however short ago that failed, and leave and close the ledger.

        A ledger that is not open stays so where nothing was counted: a command that only looks
        leaves nothing behind.
        """
        if self._ledger is not None or increase(counters, self._posted):
            self._retry_at = float("-inf")
            self.post(counters, {})
        self._leave()
        self._mark.take_down()

    def _usable_ledger(self, now: float) -> Ledger | None:
        """Return the open ledger, opened again if need be; ``None`` while waiting to try."""
        if self._ledger is not None and self._ledger.replaced():
            self._ledger.close()
            self._ledger = None
        if self._ledger is None and now >= self._retry_at:
            self._ledger = self._open()
            if self._ledger.identity != self._identity:
                # A file that has none of this worker's counts, not even those posted elsewhere.
                self._identity = self._ledger.identity
                self._posted = {}
        return self._ledger

    def _open(self) -> Ledger:
        inode = self._path.stat().st_ino if self._path.exists() else 0
        try:
            return Ledger.open(self._path, self._mark, self._clock)
        except DamagedLedger as error:
            aside = move_aside(self._path, inode)
            if aside is not None:
                self._report(error, f"; moved to {aside.name}")
            return Ledger.open(self._path, self._mark, self._clock)

    def _leave(self) -> None:
        if self._ledger is None:
            return
        try:
            self._ledger.leave()
        except StoreError as error:
            self._report(error)
        self._ledger.close()
        self._ledger = None

    def _let_go(self, error: Exception, now: float) -> None:
        self._report(error)
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        self._retry_at = now + RETRY_SECONDS

    def _report(self, error: Exception, consequence: str = "") -> None:
        self._problems.append(Degraded("telemetry.ledger", f"{error}{consequence}"))
