"""Promotions against everything else, at every point where one can wait for another.

A promotion reads an entry from the store and puts it into memory. Whatever happens in between: what
was invalidated is not served by who has heard of it and does not come back, and memory ends with
what the store has.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from support.gated_store import Handle, Shelf
from support.interleavings import Act, gate, in_every_order, run
from support.walk import Heard

from stepwell.core.entry import Answer, Selector, SourceValue
from stepwell.core.names import Form
from stepwell.exact.layer import ExactLayer
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry

OLD = make_entry(tags=("faq",))
NEWER = replace(OLD, answer=Answer(Form.JSON, b"{}"), created_at=1_001.0)
KEY = OLD.key


class Worker:
    """A layer over its memory and its handle of the store."""

    def __init__(self, shelf: Shelf) -> None:
        self.handle = Handle(shelf)
        memory = MemoryStore(
            Lru(), max_entries=9, max_bytes=1 << 20, clock=HandClock(), events=Heard()
        )
        self.layer = ExactLayer(memory, self.handle, self.handle, events=Heard())
        self.has_newer = False
        """It has kept a newer answer, which may be gone again."""


class Two:
    """Two workers over a store that has the old answer; the first one promotes it."""

    def __init__(self, *deeds: str, news_at_once: bool) -> None:
        self.shelf = Shelf(news_at_once)
        self.shelf.entries[KEY] = OLD
        self.one, self.other = Worker(self.shelf), Worker(self.shelf)
        self._deeds = deeds

    def acts(self) -> Sequence[Act]:
        return [self._look_up(self.one), *(DEEDS[deed](self) for deed in self._deeds)]

    async def _look_up(self, worker: Worker) -> None:
        """Ask for the entry; what has been heard to be gone is not found.

        Who lost the thread reads the sources too, and looks at what came before that only.
        """
        before = worker.handle.heard
        found = await worker.layer.lookup(KEY)
        heard = before if "feed lost" in self._deeds else worker.handle.heard
        assert found is None or not self.shelf.is_gone(found[0], heard)

    async def make(self, worker: Worker) -> None:
        """Get a newer answer, which takes its time, and keep it."""
        entry = replace(NEWER, as_of=worker.layer.position())
        await gate()
        if worker.layer.keep(entry):
            worker.has_newer = True
            await worker.layer.share(entry)

    async def invalidate(self, worker: Worker, selector: Selector) -> None:
        """Have what is meant go: from then on this worker does not find it."""
        before = self.shelf.next_position()
        await worker.layer.invalidate(selector)
        held = worker.layer.peek(KEY)
        assert held is None or held.as_of >= before or not selector.matches(held)

    async def again(self, worker: Worker) -> None:
        """Ask once more."""
        await self._look_up(worker)

    def look(self) -> None:
        """Nobody serves what it has heard to be gone, nor the old answer after a newer one.

        Who lost the thread has forgotten all, and may find the old one until it is replaced.
        """
        for worker in (self.one, self.other):
            held = worker.layer.peek(KEY)
            assert held is None or not self.shelf.is_gone(held, worker.handle.heard)
            assert held is not OLD or not worker.has_newer or "feed lost" in self._deeds

    def end(self) -> None:
        """When all has been heard, memory holds what the store has, or nothing."""
        for worker in (self.one, self.other):
            worker.handle.hear()
            run(worker.layer.catch_up())
            held = worker.layer.peek(KEY)
            assert held is None or held == self.shelf.visible(KEY)
            found = run(worker.layer.lookup(KEY))
            assert (None if found is None else found[0]) == self.shelf.visible(KEY)
            assert worker.layer.source_value(OLD.namespace, "faq") == self.shelf.sources.get(
                (OLD.namespace, "faq")
            )


Deed = Callable[[Two], Act]

DEEDS: dict[str, Deed] = {
    "a second promotion": lambda two: two.again(two.one),
    "a promotion elsewhere": lambda two: two.again(two.other),
    "a newer answer here": lambda two: two.make(two.one),
    "a newer answer elsewhere": lambda two: two.make(two.other),
    "deleted here": lambda two: two.invalidate(two.one, Selector(key=KEY)),
    "deleted elsewhere": lambda two: two.invalidate(two.other, Selector(key=KEY)),
    "tag invalidated here": lambda two: two.invalidate(two.one, Selector(tag="faq")),
    "tag invalidated elsewhere": lambda two: two.invalidate(two.other, Selector(tag="faq")),
    "tag revoked elsewhere": lambda two: two.other.layer.revoke(Selector(tag="faq")),
    "another tag invalidated": lambda two: two.invalidate(two.other, Selector(tag="other")),
    "source moved elsewhere": lambda two: two.other.layer.move_source(
        OLD.namespace, SourceValue("faq", "2")
    ),
    "feed lost": lambda two: two.one.handle.lose(),
    "feed cut off": lambda two: two.one.handle.be_cut_off(),
    "news come": lambda two: two.one.handle.follow(),
}


KINDS = pytest.mark.parametrize("news_at_once", [True, False], ids=["as on disk", "as in Redis"])


@KINDS
@pytest.mark.parametrize("deed", DEEDS)
def test_one_deed_during_a_promotion(deed: str, *, news_at_once: bool) -> None:
    """At each point of it, and each point of the deed."""
    assert in_every_order(lambda: Two(deed, news_at_once=news_at_once)) > 1


APART = "deleted", "another", "tag revoked", "a second"
"""Much like others, and left out of pairs: with these it would take a minute."""

PAIRS = list(combinations([deed for deed in DEEDS if not deed.startswith(APART)], 2))


@KINDS
@pytest.mark.slow
@pytest.mark.parametrize("deeds", PAIRS, ids=" & ".join)
def test_two_deeds_during_a_promotion(deeds: tuple[str, str], *, news_at_once: bool) -> None:
    """All three at all points."""
    assert in_every_order(lambda: Two(*deeds, news_at_once=news_at_once)) > 2
