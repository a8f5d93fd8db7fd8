"""A steady load of mixed requests on several gateways, each answer checked against its question.

The model server echoes (`stepwell.testing.fake_upstream`), so an answer tells what it is one to.
Requests leave at a fixed pace, whatever becomes of those before them.
"""

import asyncio
import itertools
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp
from load import TOKEN, prompt
from peers import EXACT_ONLY, GATEWAY_LOG, start_gateway
from processes import CPUS, Server

from stepwell.testing.fake_upstream import FakeUpstream

QUESTION_BYTES = 256
PATIENCE_SECONDS = 30.0
"""After which a request counts as failed."""

GATEWAYS = 2
_SECRET = "BENCHMARK_SECRET"  # the name of a variable
_FIELDS = {"authorization": f"Bearer {TOKEN}"}
_ONLY_STORED = {"cache-control": "only-if-cached"}
_AT_ONCE = 16


@asynccontextmanager
async def gateways(
    redis_url: str, upstream: FakeUpstream, *, settings: str = ""
) -> AsyncIterator[tuple[list[Server], list[Path]]]:
    """Run two gateways that share a Redis and a model server; yield them, and their logs."""
    text = f'{EXACT_ONLY}{settings}\n[auth]\nnamespace_secret_env = "{_SECRET}"\n'
    text += f'[stores.redis]\nurl = "{redis_url}"\n'
    environment = {_SECRET: secrets.token_hex(16)}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = [directory / str(number) for number in range(GATEWAYS)]
        servers = []
        for place in places:
            place.mkdir()
            gateway = start_gateway(
                place,
                upstream.base_url.removesuffix("/v1"),
                settings=text,
                cpus=CPUS,
                environment=environment,
            )
            servers.append(await asyncio.to_thread(stack.enter_context, gateway))
        yield servers, [place / GATEWAY_LOG for place in places]


class Kind(StrEnum):
    """Where the answer should come from while all is well."""

    HELD = "memory"
    STORED = "redis"
    """Another gateway has put it there, and the one that is asked has not seen it yet."""
    NEW = "model"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is over."""

    kind: Kind
    at: float
    """When it was sent, by the event loop's clock."""
    seconds: float
    status: int
    """0 if the connection broke, or nothing came in time."""
    outcome: str
    """``HIT``, ``MISS`` and so on; empty if there was no answer."""
    is_right: bool
    """Whether the answer, if there was one, is that to its question, and whole."""

    @property
    def has_failed(self) -> bool:
        """Whether the client got no answer."""
        return self.status != 200


class Client:
    """Asks gateways plain questions."""

    def __init__(self, http: aiohttp.ClientSession, ports: Sequence[int]) -> None:
        self._http = http
        self._urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._now = asyncio.get_running_loop().time

    async def ask(
        self,
        gateway: int,
        kind: Kind,
        text: str,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        model: str = "fake",
    ) -> Asked:
        """Ask one gateway one question."""
        body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}
        url = f"{self._urls[gateway]}/v1/chat/completions"
        at, status, outcome, is_right, answer = self._now(), 0, "", True, b""
        try:
            async with self._http.post(
                url, json=body, headers={**_FIELDS, **(headers or {})}
            ) as it:
                answer = await it.read()
                status, outcome = it.status, it.headers.get("x-cache", "")
        except (aiohttp.ClientError, TimeoutError):
            pass
        if stream and not answer.endswith(b"data: [DONE]\n\n"):
            status = 0  # it broke off, and says so
        if status == 200:
            is_right = (streams if stream else answers)(answer, text)
        return Asked(kind, at, self._now() - at, status, outcome, is_right)

    async def troubles(self, gateway: int) -> Mapping[str, str]:
        """Return what a gateway's readiness page says of parts that it does without."""
        async with self._http.get(f"{self._urls[gateway]}/readyz") as reply:
            page = await reply.json()
        assert page["status"] == "ready"
        return dict(page["degraded"])

    async def invalidate(self, gateway: int, tag: str) -> int:
        """Invalidate a tag; return the status."""
        body = {"tag": tag, "dry_run": False}
        async with self._http.post(f"{self._urls[gateway]}/admin/invalidate", json=body) as reply:
            await reply.read()
            return reply.status

    async def shares(self, number: int) -> bool:
        """Return whether what each of two gateways stores is found by the other, now."""
        for giver, taker in ((0, 1), (1, 0)):
            text = question(f"shared {giver}", number)
            await self.ask(giver, Kind.NEW, text)
            await asyncio.sleep(0.01)  # it is stored behind the answer
            if (await self.ask(taker, Kind.STORED, text, headers=_ONLY_STORED)).has_failed:
                return False
        return True


def question(name: str, number: int) -> str:
    """Return a question that differs from all others."""
    return f"{name} {number}: {prompt(number, QUESTION_BYTES)}"


def answers(body: bytes, text: str) -> bool:
    """Return whether a reply is the echo of ``text``."""
    said = json.loads(body)["choices"][0]["message"]["content"]
    return bool(said.partition("] echo: ")[2] == text)


def streams(body: bytes, text: str) -> bool:
    """As `answers`, of a reply that came as events."""
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
    deltas = [json.loads(line)["choices"] for line in lines if line != b"[DONE]"]
    said = "".join(choices[0]["delta"].get("content") or "" for choices in deltas if choices)
    return said.partition("] echo: ")[2] == text


class Load:
    """A third of each kind, to two gateways in turn."""

    def __init__(self, client: Client, *, rate: float, held: int = 8) -> None:
        """Prepare.

        Args:
            client: Knows two gateways.
            rate: Requests a second.
            held: Questions that both gateways are to hold in memory.
        """
        self.done: list[Asked] = []
        self._client = client
        self._rate = rate
        self._held = [question("held", number) for number in range(held)]
        self._stored: tuple[Iterator[str], ...] = ()
        self._under_way: set[asyncio.Task[None]] = set()

    async def fill(self, stored: int) -> None:
        """Have each gateway store so many answers for the other one, and hold what both hold."""
        texts = [[question(f"stored {taker}", n) for n in range(stored)] for taker in (0, 1)]
        self._stored = tuple(map(iter, texts))
        for taker in (0, 1):
            for page in _pages(texts[taker]):
                await asyncio.gather(
                    *(self._client.ask(1 - taker, Kind.NEW, text) for text in page)
                )
            for text in self._held:
                await self._client.ask(taker, Kind.HELD, text)

    async def run(self) -> None:
        """Ask until cancelled; then those under way are waited for."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            for number in itertools.count():
                task = asyncio.create_task(self._ask(number))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
                due += 1 / self._rate
                await asyncio.sleep(max(0.0, due - loop.time()))
        finally:
            await asyncio.gather(*self._under_way)

    async def _ask(self, number: int) -> None:
        gateway, turn = number % 2, number // 2
        kind = tuple(Kind)[turn % 3]
        match kind:
            case Kind.HELD:
                text = self._held[turn // 3 % len(self._held)]
            case Kind.STORED:
                text = next(self._stored[gateway])
            case Kind.NEW:
                text = question("new", number)
        self.done.append(await self._client.ask(gateway, kind, text))


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something meanwhile, which is cancelled at the end. Raises what it raises."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _pages(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(texts), _AT_ONCE):
        yield texts[first : first + _AT_ONCE]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values is; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
