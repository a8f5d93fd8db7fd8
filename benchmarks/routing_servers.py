"""Ways to place prompts with real llama.cpp servers in place of simulated ones."""

import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from processes import CPUS, Server, free_port, serving
from support.llama_replicas import Size, Talk, Way, cached_share, llama_servers, talks, way_to

CONTEXT_TOKENS = 4_096


@dataclass(frozen=True)
class Traffic:
    """What each way is asked: conversations of its own, so that it finds nothing of another's."""

    talks: int
    turns: int
    size: Size


FULL = Traffic(12, 4, Size(system_words=100, user_words=25, answer_tokens=8))
SMOKE = Traffic(2, 2, Size(system_words=10, user_words=5, answer_tokens=1))


class Counted:
    """A way to one server that counts what the server computes."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self.computed_tokens = 0

    async def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask there."""
        read = await self._way(body)
        usage = read["usage"]
        self.computed_tokens += usage["prompt_tokens"]
        self.computed_tokens -= usage["prompt_tokens_details"]["cached_tokens"]
        return read


def play(servers: int, *, smoke: bool) -> list[dict[str, object]]:
    """Return a row for each way over so many servers."""
    with llama_servers(servers, context_tokens=CONTEXT_TOKENS) as urls, _gateway(urls) as gateway:
        return asyncio.run(_play(urls, gateway, SMOKE if smoke else FULL))


async def _play(urls: Sequence[str], gateway: Server, traffic: Traffic) -> list[dict[str, object]]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:
        alone = await _hold(1, traffic, [way_to(http, urls[0])])
        bound = cached_share(alone)
        rows = [_row("one of all", alone, bound, [1])]
        ways = [Counted(way_to(http, url)) for url in urls]
        in_turn = await _hold(2, traffic, ways)
        computed = [way.computed_tokens for way in ways]
        rows.append(_row("round robin", in_turn, bound, computed))
        origin = f"http://127.0.0.1:{gateway.port}"
        routed = await _hold(3, traffic, [way_to(http, f"{origin}/v1")])
        async with http.get(f"{origin}/admin/replicas") as reply:
            agreed = [one["agreed"] for one in json.loads(await reply.read())["replicas"]]
        async with http.get(f"{origin}/metrics") as reply:
            decided = _decided(await reply.text())
        computed = [one["prompt_tokens"] - one["cached_tokens"] for one in agreed]
        met = sum(one["met_tokens"] for one in agreed)
        foretold = sum(one["foretold_tokens"] for one in agreed)
        row = _row("router, chats unknown", routed, bound, computed)
        rows.append({**row, "foretold_met": met / max(1, foretold), "decided": decided})
        return rows


async def _hold(seed: int, traffic: Traffic, ways: Sequence[Way]) -> list[Talk]:
    """Hold the conversations at once, each turn going to the next way."""
    held = talks(traffic.talks, traffic.size, seed)
    following = itertools.cycle(ways)

    async def hold(talk: Talk) -> None:
        for _ in range(traffic.turns):
            await talk.take_turn(next(following))

    await asyncio.gather(*[hold(talk) for talk in held])
    return held


def _row(
    way: str, held: Sequence[Talk], bound: float, computed: Sequence[int]
) -> dict[str, object]:
    return {
        "scene": "llama.cpp",
        "way": way,
        "prompt_tokens": sum(talk.prompt_tokens for talk in held),
        "cached": cached_share(held),
        "of_one": cached_share(held) / bound,
        "load": max(computed) / statistics.fmean(computed),
    }


def _decided(metrics: str) -> str:
    """Return what decided how many requests: ``home`` should be each conversation's first."""
    counts: Counter[str] = Counter()
    for why, count in re.findall(r'replica_requests_total{.*why="([a-z-]+)".*} ([0-9]+)', metrics):
        counts[why] += int(count)
    return ", ".join(f"{why} {count}" for why, count in counts.most_common())


@contextmanager
def _gateway(urls: Sequence[str]) -> Iterator[Server]:
    """Run the gateway as a user would."""
    with tempfile.TemporaryDirectory(prefix="stepwell-routing-") as name:
        folder = Path(name)
        settings = folder / "settings.toml"
        settings.write_text(
            f"""
            [semantic]
            embedder = "off"
            [upstreams.llm]
            replicas = {json.dumps(urls)}
            engine = "llamacpp"
            [upstreams.llm.prefix]
            token_timeout_seconds = 10
            """
        )
        port = free_port()
        command = [sys.executable, "-m", "stepwell.cli.main", "serve", "--config", str(settings)]
        command += ["--port", str(port), "--data", str(folder / "data"), "--workers", "1"]
        log = folder / "gateway.log"
        with serving(command, port=port, ready_path="/readyz", log=log, cpus=CPUS) as server:
            yield server
