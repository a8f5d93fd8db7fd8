"""The machine's clock jumps, either way: nothing stale is served, nothing is kept for ever."""

import pytest
from support.gateway import Gateway, StartGateway
from support.time import stop_time

from stepwell.testing.fake_upstream import FakeUpstream

HOUR = 3_600
DECADE = 87_600 * HOUR


async def ask(gateway: Gateway) -> tuple[str, str | None]:
    """Return what the cache had to do with an answer, and its age; what it stored is stored."""
    answer = await gateway.ask("hi")
    await gateway.settle()
    assert answer.status == 200
    return answer.headers["x-cache"], answer.headers.get("age")


@pytest.mark.parametrize("keeps", ["memory", "disk"])
async def test_clock_jumps(
    start_gateway: StartGateway,
    upstream: FakeUpstream,
    monkeypatch: pytest.MonkeyPatch,
    keeps: str,
) -> None:
    """An answer from the future is asked anew; a step back of seconds does no harm.

    Between machines that share a disk, or after a restart, the same.
    """
    clock = stop_time(monkeypatch)

    async def after(seconds: float) -> tuple[str, str | None]:
        clock.seconds += seconds
        if keeps == "memory":
            return await ask(gateway)
        async with start_gateway() as another:
            return await ask(another)

    async with start_gateway() as gateway:
        assert await ask(gateway) == ("MISS", None)
        assert await after(100) == ("HIT", "100")
        assert await after(-130) == ("HIT", "0")  # Half a minute before it was made.
        assert await after(-HOUR) == ("MISS", None)
        assert await after(0) == ("HIT", "0")
        assert await after(DECADE) == ("MISS", None)
        assert await after(HOUR - 1) == ("HIT", str(HOUR - 1))
        assert await after(1) == ("MISS", None)
        assert await after(-DECADE) == ("MISS", None)
        assert await after(1) == ("HIT", "1")
    assert upstream.call_count == 5


async def test_a_stale_answer_is_not_served_after_a_step_back(
    start_gateway: StartGateway, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say how old it is then: it does not even stand in for a failure."""
    clock = stop_time(monkeypatch)
    patient = {"general": {"stale_if_error_seconds": DECADE / 100}}
    async with start_gateway(classes=patient) as gateway:
        await ask(gateway)
        await upstream.__aexit__()
        clock.seconds += HOUR + 1
        assert await ask(gateway) == ("STALE", str(HOUR + 1))
        clock.seconds -= 2 * HOUR
        assert (await gateway.ask("hi")).status == 502
        clock.seconds += 2 * HOUR
        assert await ask(gateway) == ("STALE", str(HOUR + 1))
        await upstream.__aenter__()
