"""Beginning merges, and noting how they ended."""

from stepwell.core.clock import Clock
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.semantic.index import tiers
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.merge_process import FoundDamage, MergeFailed, MergeProcess
from stepwell.semantic.index.merging import Job
from stepwell.semantic.index.sharing import COMPONENT
from stepwell.semantic.index.view import View
from stepwell.semantic.index.waits import Backoff, on_thread


class Merger:
    """At most one merge at a time of this worker, and of all that share the directory."""

    def __init__(
        self, view: View, folder: Folder, *, bounds: Bounds, clock: Clock, events: EventSink
    ) -> None:
        self._view = view
        self._folder = folder
        self._bounds = bounds
        self._clock = clock
        self._events = events
        self._backoff = Backoff(clock)
        self._process: MergeProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether a process is at work, or has ended and `follow` has not noted it."""
        return self._process is not None

    def follow(self) -> None:
        """Begin a merge if one is due, or note how the last one ended. Does not wait."""
        try:
            if self._process is None:
                self._begin()
            else:
                self._note(self._process)
        except OSError as error:
            self._failed(str(error))

    async def aclose(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            await on_thread(process.stop)

    def _begin(self) -> None:
        names = tiers.choose(
            self._view.sizes(),
            first_rows=2 * self._bounds.delta_points,
            fan=self._bounds.fan,
            dead_share=self._bounds.dead_share,
        )
        if names and self._backoff.is_over() and not self._folder.is_merging():
            self._process = MergeProcess(
                Job(
                    str(self._folder.path.absolute()),
                    self._folder.identity,
                    tuple(names),
                    self._bounds.ivf_rows,
                    self._clock.now(),
                )
            )

    def _note(self, process: MergeProcess) -> None:
        outcome = process.outcome()
        if outcome is None:
            return
        self._process = None
        match outcome:
            case FoundDamage(name, reason):
                self._view.note_broken(name, reason)
                self._failed(reason)
            case MergeFailed(reason):
                self._failed(reason)
            case _:
                self._backoff.reset()

    def _failed(self, reason: str) -> None:
        self._backoff.lengthen()
        self._events.emit(Degraded(COMPONENT, f"merge: {reason}"))
