"""What a reply invalidates is done without the reply waiting for it longer than it may."""

import asyncio

import pytest
from support.walk import Heard, make_exact

from stepwell.core.entry import Selector
from stepwell.core.events import Degraded
from stepwell.pipeline import groups
from stepwell.pipeline.groups import Groups
from stepwell.stores.alone import Alone
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_namespace

TENANT = make_namespace("tenant")
SAYS = (("cache-group-invalidation", '"faq"'),)


class Slow(Alone):
    """A store that revokes when it is let."""

    go_on: asyncio.Event

    async def revoke(self, selector: Selector) -> None:
        await self.go_on.wait()
        await super().revoke(selector)


async def test_a_slow_store_holds_no_reply_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done behind the reply; whoever closes waits for it."""
    monkeypatch.setattr(groups, "OBEY_SECONDS", 0.0)
    Slow.go_on = asyncio.Event()
    exact = make_exact(HandClock(), Heard(), store=Slow)
    entry = make_entry(tags=("faq",))
    exact.keep(entry)
    heeding = Groups(exact, events=Heard())
    await heeding.heed("upstream", TENANT, 200, SAYS)
    assert exact.peek(entry.key) is entry
    Slow.go_on.set()
    await heeding.aclose()
    assert exact.peek(entry.key) is None


async def test_nobodys_reply_invalidates_nothing() -> None:
    """Without a tenant there is nothing that it could mean; what cannot be read is told."""
    heard = Heard()
    exact = make_exact(HandClock(), heard)
    entry = make_entry(tags=("faq",))
    exact.keep(entry)
    heeding = Groups(exact, events=heard)
    await heeding.heed("upstream", None, 200, SAYS)
    await heeding.heed("upstream", make_namespace("another"), 200, SAYS)
    await heeding.heed("upstream", TENANT, 200, (("cache-group-invalidation", "faq"),))
    assert exact.peek(entry.key) is entry
    (told,) = heard.of(Degraded)
    assert isinstance(told, Degraded)
    assert told.component == "groups"
