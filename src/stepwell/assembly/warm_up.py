"""The warm-up of a gateway: by one process of the machine, as long as that lives."""

import asyncio
import fcntl
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from stepwell.assembly.house import House
from stepwell.assembly.standing import standing_prompts
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.core.steering import SupportsReplicas
from stepwell.pipeline.targets import Targets
from stepwell.pipeline.warm_up import LOOK_SECONDS, WarmUp

LOCK_FILE = "warm-up.lock"


def followed(targets: Targets) -> Mapping[str, SupportsReplicas]:
    """Return the upstreams that have replicas, by name."""
    return {
        target.upstream.name: target.upstream
        for target in targets
        if isinstance(target.upstream, SupportsReplicas)
    }


def warm_up_of(house: House) -> WarmUp | None:
    """Return what warms the replicas of a house; ``None``: nothing is to be warmed.

    Raises:
        ConfigError: A table of ``[[prefix.warm]]`` cannot be used.
    """
    prompts = standing_prompts(house.plan.settings, house.secret)
    if not prompts:
        return None
    return WarmUp(
        prompts,
        followed(house.targets),
        hear=house.exact.catch_up,
        clock=house.clock,
        events=house.events,
    )


class WarmUpTask:
    """Runs the warm-up behind the requests. One event loop.

    The workers of a data directory agree by a lock on a file there: who has it warms, and when it
    dies another does, from the start.
    """

    def __init__(self, warm_up: WarmUp, folder: Path, events: EventSink) -> None:
        """Begin, as soon as no other process does it."""
        self._warm_up = warm_up
        self._lock = folder / LOCK_FILE
        self._events = events
        self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        """Stop; what is being read is broken off."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            try:
                descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, descriptor)
                while not _try_lock(descriptor):  # noqa: ASYNC110  (nobody tells of a file's lock)
                    await asyncio.sleep(LOOK_SECONDS)
            except OSError as error:
                # What others may read as well is read twice: no harm but the time.
                self._events.emit(Degraded("warm-up", f"{self._lock}: {error.strerror}"))
            await self._warm_up.run()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
