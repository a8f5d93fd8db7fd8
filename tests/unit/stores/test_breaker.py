"""The circuit: when it opens and closes, who hears of it, and how often a server is probed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.breaker import SETTLED_SECONDS, Breaker, Closed, Open, State
from stepwell.testing.clock import HandClock


class Pauses:
    """Time that goes on as soon as somebody waits for it."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.seen: list[float] = []
        self.time = self.clock.monotonic

    async def pause(self, seconds: float) -> None:
        self.seen.append(seconds)
        self.clock.seconds += seconds
        await asyncio.sleep(0)


class Server:
    """Something to probe, that fails as often as it is told."""

    def __init__(self) -> None:
        self.failures = 0
        self.probes = 0
        self.changes: list[State] = []
        self.closed = asyncio.Event()
        self.third_probe = asyncio.Event()

    async def probe(self) -> None:
        self.probes += 1
        if self.probes == 3:
            self.third_probe.set()
            await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable(f"{self.failures} more failures")

    def on_change(self, state: State) -> None:
        self.changes.append(state)
        if isinstance(state, Closed):
            self.closed.set()


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def breaker(server: Server, pauses: Pauses) -> Breaker:
    return Breaker(server.probe, on_change=server.on_change, timing=pauses, draw=lambda: 1.0)


async def test_good_start_is_no_news(breaker: Breaker, server: Server) -> None:
    """Before it, nobody is let through."""
    assert breaker.state == Open("it was not reached yet")
    await breaker.start()
    after: State = breaker.state
    assert (after, server.changes) == (Closed(), [])


async def test_bad_start_is_told_and_tried_again(breaker: Breaker, server: Server) -> None:
    """The server may come later."""
    server.failures = 3
    await breaker.start()
    assert breaker.state == Open("2 more failures")
    await server.closed.wait()
    assert server.changes == [Open("2 more failures"), Closed()]


async def test_a_state_is_told_once(breaker: Breaker, server: Server) -> None:
    """However often calls fail while it is open."""
    await breaker.start()
    server.failures = 1
    for number in range(5):
        breaker.trip(f"failure {number}")
    assert breaker.state == Open("failure 0")
    await server.closed.wait()
    assert server.changes == [Open("failure 0"), Closed()]


async def test_the_reason_is_the_last_that_was_seen(breaker: Breaker, server: Server) -> None:
    """Calls that fail say what is wrong now, not what was at first."""
    await breaker.start()
    server.failures = 2
    breaker.trip("broken")
    await server.third_probe.wait()
    assert breaker.state == Open("1 more failures")
    await server.closed.wait()
    assert server.changes == [Open("broken"), Closed()]


async def test_pauses_grow(breaker: Breaker, server: Server, pauses: Pauses) -> None:
    """From 0.1 to 2 seconds; a first failure in a long while is looked into at once."""
    await breaker.start()
    pauses.clock.seconds += SETTLED_SECONDS
    server.failures = 1_100  # more than a float has powers of two
    breaker.trip("broken")
    await server.closed.wait()
    assert pauses.seen[:7] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert set(pauses.seen[7:]) == {2.0}


async def test_pauses_are_spread(server: Server, pauses: Pauses) -> None:
    """Many clients of one server do not come all at once."""
    breaker = Breaker(server.probe, on_change=server.on_change, timing=pauses, draw=lambda: 0.0)
    server.failures = 3
    await breaker.start()
    await server.closed.wait()
    assert pauses.seen == [0.05, 0.1, 0.2]


async def test_a_server_that_fails_again_at_once_is_probed_less_and_less(
    breaker: Breaker, server: Server, pauses: Pauses
) -> None:
    """Until it has worked for a while."""
    await breaker.start()
    pauses.clock.seconds += SETTLED_SECONDS
    for _ in range(4):
        server.closed.clear()
        breaker.trip("broken")
        await server.closed.wait()
    assert pauses.seen == [0.0, 0.1, 0.2, 0.4]
    pauses.clock.seconds += SETTLED_SECONDS
    server.closed.clear()
    breaker.trip("broken")
    await server.closed.wait()
    assert pauses.seen[4:] == [0.0]


async def test_config_error_at_start_is_the_operators(server: Server) -> None:
    """Nothing goes on behind it."""

    async def probe() -> None:
        raise ConfigError("no such db")

    breaker = Breaker(probe, on_change=server.on_change)
    with pytest.raises(ConfigError):
        await breaker.start()
    assert server.changes == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_config_error_later_is_a_reason(pauses: Pauses, server: Server) -> None:
    """A server may have been replaced by one of another kind, and come back."""
    errors = iter([None, ConfigError("no such db"), None])

    async def probe() -> None:
        if (error := next(errors)) is not None:
            raise error

    breaker = Breaker(probe, on_change=server.on_change, timing=pauses)
    await breaker.start()
    breaker.trip("broken")
    await server.closed.wait()
    assert server.changes == [Open("broken"), Closed()]


def never() -> Awaitable[None]:
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("probe", [never, None], ids=["in a probe", "in a pause"])
async def test_closing_ends_what_is_under_way(
    probe: Callable[[], Awaitable[None]] | None, server: Server
) -> None:
    """And it stays open, whatever comes."""
    server.failures = 1_000
    breaker = Breaker(probe or server.probe, on_change=server.on_change)
    breaker.trip("broken")
    await asyncio.sleep(0)
    await breaker.aclose()
    await breaker.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    breaker.trip("broken again")
    assert breaker.state == Open("it was closed here")
    assert server.changes == [Open("broken")]
