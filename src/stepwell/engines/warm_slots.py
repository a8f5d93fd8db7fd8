"""Keeps a llama.cpp server warm across restarts: saves its slots, and has it read them again."""

import contextlib
from dataclasses import dataclass
from typing import Protocol

from stepwell.engines.llama_routes import Activity, RouteFailed, Wrote
from stepwell.engines.saved_slots import SavedSlots

IDLE_SECONDS = 5.0
"""A server that has done nothing for so long is saved."""

SAVE_EVERY_SECONDS = 60.0
"""But not more often: a slot of 4,096 tokens is 94 MB."""

RESTORE_SECONDS = 10.0
"""For one slot. It takes milliseconds, but the machine may be busy."""

MIN_TOKENS = 16
"""Of a slot worth saving. One that let go of what it held has a token or two."""

END_SECONDS = 3.0
"""For saving at the end. Less than the parent waits."""


class Routes(Protocol):
    """`LlamaRoutes`, or what stands in for it."""

    def save(self, slot: int, filename: str, timeout_seconds: float) -> Wrote: ...

    def restore(self, slot: int, filename: str, timeout_seconds: float) -> int: ...

    def let_go(self, slot: int, timeout_seconds: float) -> None: ...

    def activity(self, timeout_seconds: float) -> Activity: ...


@dataclass(frozen=True, slots=True)
class Restored:
    """What a server found again."""

    slots: int = 0
    tokens: int = 0
    refused: int = 0
    """Files that were there and of no use: damaged, foreign, or not taken by the server."""


class WarmSlots:
    """The slots of one server. For one thread; blocks. The disk's troubles only cost warmth.

    What was restored is handed on to the server's prompt cache: the callers' tables do not know
    which slot holds what, and there any slot finds it.
    """

    def __init__(self, routes: Routes, files: SavedSlots, slots: int) -> None:
        """Look after the first ``slots`` slots."""
        self._routes = routes
        self._files = files
        self._slots = slots
        self._seen = Activity(0, is_busy=False)
        self._seen_at: float | None = None
        """Since when the server has not done anything new."""
        self._saved_decodes = 0
        self._saved_at: float | None = None

    def restore(self) -> Restored:
        """Give the server what was saved. Once, before it serves anybody."""
        restored = Restored()
        with contextlib.suppress(OSError):
            self._files.make_folder()
            for slot in range(self._slots):
                restored = self._restore(slot, restored)
        with contextlib.suppress(RouteFailed):
            self._saved_decodes = self._routes.activity(RESTORE_SECONDS).decodes
        return restored

    def look(self, now: float) -> None:
        """Save if the server has worked since it was saved last, and is idle. Call now and then.

        Args:
            now: Seconds of a clock that is never turned back.
        """
        try:
            activity = self._routes.activity(IDLE_SECONDS)
        except RouteFailed:
            return  # It computes; or it has ended, which the parent sees.
        if activity != self._seen or self._seen_at is None or activity.is_busy:
            self._seen, self._seen_at = activity, now
            return
        is_due = self._saved_at is None or now - self._saved_at >= SAVE_EVERY_SECONDS
        has_worked = activity.decodes != self._saved_decodes
        if is_due and has_worked and now - self._seen_at >= IDLE_SECONDS:
            self._save_all(IDLE_SECONDS)
            self._saved_decodes, self._saved_at = activity.decodes, now

    def save_at_the_end(self) -> None:
        """Save what has changed, and what is free, within `END_SECONDS` in all."""
        each = END_SECONDS / (self._slots + 1)
        try:
            if self._routes.activity(each).decodes == self._saved_decodes:
                return
        except RouteFailed:
            return  # It is in the middle of a prompt; no slot would be saved in time, either.
        self._save_all(each)

    def _restore(self, slot: int, restored: Restored) -> Restored:
        if not self._files.has_any(slot):
            return restored
        saved = self._files.take(slot)
        try:
            if saved is not None:
                name = self._files.file(slot).name
                tokens = self._routes.restore(slot, name, RESTORE_SECONDS)
                self._routes.let_go(slot, RESTORE_SECONDS)
                self._files.keep_on(slot, saved)
                return Restored(restored.slots + 1, restored.tokens + tokens, restored.refused)
        except RouteFailed:
            pass
        self._files.remove(slot)
        return Restored(restored.slots, restored.tokens, restored.refused + 1)

    def _save_all(self, timeout_seconds: float) -> None:
        for slot in range(self._slots):
            self._save(slot, timeout_seconds)

    def _save(self, slot: int, timeout_seconds: float) -> None:
        new = self._files.new_file(slot)
        try:
            wrote = self._routes.save(slot, new.name, timeout_seconds)
            if wrote.n_saved >= MIN_TOKENS:
                self._files.keep(slot, new, tokens=wrote.n_saved, size_bytes=wrote.n_written)
        except (RouteFailed, OSError):
            pass  # What was saved before stays, unless it has been replaced.
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
