"""Whether a provider still has the model that a version began with.

A provider may change its model under its name. Its vectors look like any others then, and are
compared with old ones that they have nothing to do with. So a few texts are embedded when a version
begins, and again now and then; if one has moved, the version is over.
"""

import asyncio
import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from stepwell.core.embedding import FullStore
from stepwell.core.embedding_events import EmbeddingSink
from stepwell.core.errors import StepwellError, StoreError
from stepwell.core.events import Degraded
from stepwell.embedding.cache.provider import Provider
from stepwell.embedding.cache.registration import Registration
from stepwell.embedding.cache.replies import checked_rows
from stepwell.embedding.cache.value import Numbers, pack, unpack
from stepwell.embedding.cache.versions import Version

CANARY_SECONDS: Final = 3600.0

CANARY_TEXTS: Final = (
    "The lighthouse keeper counted seventeen ships before the fog came in.",
    "图书馆每周三下午两点开放。",
)

MAX_DISTANCE: Final = 0.0447
"""Of a canary from what it was, as a part of its length: for equal lengths, a cosine of 0.999.
Servers that batch, or change their kernels, stay a hundred times below."""

_AGAIN_SECONDS: Final = 60.0
"""After a look that could not be had."""


def distance(vector: Numbers, known: Numbers) -> float:
    """Return how far ``vector`` is from ``known``, as a part of its length; infinite if their
    widths differ. Sees other directions and other lengths.
    """
    if vector.size != known.size:
        return math.inf
    before = known.astype(np.float64)
    moved = vector.astype(np.float64) - before
    return float(np.sqrt((moved @ moved) / (before @ before)))


class Canaries:
    """Looks at providers, at most so often. For one event loop."""

    def __init__(
        self,
        full: FullStore | None,
        registration: Registration,
        events: EmbeddingSink,
        *,
        every_seconds: float | None,
    ) -> None:
        """Keep what is known in ``full``; without it, or with no ``every_seconds``, never look."""
        self._full = full
        self._registration = registration
        self._events = events
        self._every_seconds = every_seconds
        self._looks: dict[Version, asyncio.Task[None]] = {}

    async def look(self, version: Version, provider: Provider) -> None:
        """Look at ``provider`` if it is time; mark ``version`` as drifted if it has changed.

        To be called after a call that went well, before what it brought is kept. Several who come
        at the same time wait for the same look. Never raises for a failure: then nothing is known,
        and it is tried again in a minute.
        """
        if self._full is None or self._every_seconds is None or version.drifted:
            return
        task = self._looks.get(version)
        now = provider.pace.clock.monotonic()
        if task is None and now >= version.canaries_due:
            version.canaries_due = now + min(_AGAIN_SECONDS, self._every_seconds)
            task = asyncio.create_task(self._look(self._full, version, provider))
            self._looks[version] = task
            task.add_done_callback(lambda _: self._looks.pop(version, None))
        if task is not None:
            await asyncio.shield(task)

    async def aclose(self) -> None:
        """Break off."""
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    async def _look(self, full: FullStore, version: Version, provider: Provider) -> None:
        try:
            if not await self._registration.has_room(version):
                return
            known = await full.canaries(version.name)
            now = await _embedded(version, provider)
            if not known:
                await full.keep_canaries(version.name, now)
                known = await full.canaries(version.name)  # another process may have been first
            self._judge(version, now, known)
        except StoreError as error:
            self._events.emit(Degraded(f"embeddings.{full.tier}", str(error)))
        except (StepwellError, TimeoutError) as error:
            self._events.emit(Degraded("embeddings.canary", str(error)))
        else:
            version.canaries_due = provider.pace.clock.monotonic() + (self._every_seconds or 0.0)

    def _judge(
        self, version: Version, now: Mapping[str, bytes], known: Mapping[str, bytes]
    ) -> None:
        for text, value in now.items():
            before, after = unpack(known.get(text, b""), version.kind), unpack(value, version.kind)
            if before is None or after is None:
                continue
            moved = distance(after.vector, before.vector)
            if moved > MAX_DISTANCE:
                version.drift(moved, self._events)


async def _embedded(version: Version, provider: Provider) -> Mapping[str, bytes]:
    """Return the canaries' vectors as ``provider`` makes them now, as they are stored.

    Raises:
        StepwellError: It fails.
        TimeoutError: It does not answer.
    """
    kind, pace = version.kind, provider.pace
    values: dict[str, bytes] = {}
    size = min(len(CANARY_TEXTS), pace.limits.max_texts)
    for start in range(0, len(CANARY_TEXTS), size):
        texts = CANARY_TEXTS[start : start + size]
        await pace.pause(pace.book(len("".join(texts).encode()) // 4))
        async with asyncio.timeout(pace.limits.deadline_seconds):
            reply = await provider.embed([kind.prefix + text for text in texts])
        unit = kind.normalization == "unit"
        rows = checked_rows(reply, len(texts), width=kind.dimensions, unit=unit)
        values |= {
            text: pack(row, kind, 0)
            for text, row in zip(texts, rows, strict=True)
            if isinstance(row, np.ndarray)
        }
    return values
