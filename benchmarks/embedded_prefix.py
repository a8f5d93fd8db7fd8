"""What the embedded engine saves of prompts: conversations in turn, a restart, nothing alike.

    python benchmarks/embedded_prefix.py [--smoke] [--json OUT]

Conversations that share a system prompt take turns; each turn is asked of three servers with the
same weights and threads, one right after the other: ``ours``, the embedded engine as the gateway
uses it; ``plain``, llama.cpp's server with its own defaults (8 GiB of prompt cache, and it chooses
slots itself); ``cold``, the embedded engine with nothing kept. Each server's conversations go on
with its own answers. Then ``ours`` is stopped and started, and each conversation goes on. At last
come prompts that differ from the first token on, of ``ours`` and ``cold``: what looking and keeping
cost where they are of no use.

``cached`` is the share of prompt tokens that the server says it had. Times are of the wall, until
the first token (``ttft``) and the last; ``cpu`` is what the server's process took, which a busy
machine changes less. Memory is what the process held at most.
"""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import parse_arguments, print_table, write

from stepwell.core.entry import Answer, Usage
from stepwell.core.events import Event
from stepwell.core.names import Endpoint, Form
from stepwell.core.ports import Call, Upstream
from stepwell.engines.embedded import EmbeddedEngine, EngineBounds
from stepwell.engines.http import HttpUpstream
from stepwell.engines.slotted import SlottedUpstream
from stepwell.engines.weights import find_weights
from stepwell.wire.summary import summarise

WORDS = (
    "the cow field river stone bread green seven walks under morning table light paper house small"
    " glass road night along every winter door letter because people market"
).split()

PLAIN = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_parallel, params.n_ctx = sys.argv[1], 2, 8192
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, ["key"]
params.use_jinja, params.verbosity, params.ui = True, 1, False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Size:
    """How much is asked."""

    conversations: int
    turns: int
    system_words: int
    user_words: int
    answer_tokens: int
    unlike: int
    """Prompts that share nothing."""
    unlike_words: int


FULL = Size(4, 6, 470, 25, 32, 6, 500)
SMOKE = Size(2, 2, 60, 10, 4, 2, 40)


class NoEvents:
    """Hears nothing."""

    def emit(self, event: Event) -> None:
        """Take one event."""


@dataclass(frozen=True)
class Asked:
    """One request and what it took."""

    usage: Usage
    ttft_seconds: float
    seconds: float
    cpu_seconds: float
    text: str


@dataclass
class Server:
    """A model server and what it was asked."""

    upstream: Upstream
    pid: int
    keeps: bool
    """Whether it may use what it has."""
    asked: list[Asked] = field(default_factory=list)

    async def ask(self, messages: Messages, answer_tokens: int) -> Asked:
        """Ask, and wait for the last token."""
        body: dict[str, Any] = {
            "messages": messages,
            "model": "m",
            "max_tokens": answer_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_prompt": self.keeps,
        }
        cpu, started, first = cpu_seconds(self.pid), time.perf_counter(), 0.0
        reply = await self.upstream.send(Call(Endpoint.CHAT, json.dumps(body).encode(), ()))
        read = b""
        async for chunk in reply.chunks():
            read += chunk
            if not first and b'"content":"' in chunk:
                first = time.perf_counter() - started
        seconds = time.perf_counter() - started
        await reply.aclose()
        usage = summarise(Endpoint.CHAT, Answer(Form.SSE, read)).usage
        assert usage is not None, read
        return Asked(usage, first, seconds, cpu_seconds(self.pid) - cpu, text_of(read))


def cpu_seconds(pid: int) -> float:
    """Return what a process has used of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """Return the most memory a process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def text_of(stream: bytes) -> str:
    """Return the text of a streamed answer."""
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@contextmanager
def embedded(place: Path, *, keeps: bool) -> Iterator[Server]:
    """Run the embedded engine."""
    bounds = EngineBounds() if keeps else EngineBounds(prompt_cache_mib=0)
    saved_in = place / "kv" if keeps else None
    engine = EmbeddedEngine(data_dir=place, report=lambda _: None, bounds=bounds, saved_in=saved_in)
    try:
        address = engine.start()
        assert engine.pid is not None
        upstream = http(address.base_url, address.api_key)
        yield Server(SlottedUpstream(upstream, address.slots), engine.pid, keeps)
    finally:
        engine.stop()


@contextmanager
def plain() -> Iterator[Server]:
    """Run llama.cpp's server as it comes."""
    command = [sys.executable, "-c", PLAIN, str(find_weights())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        try:
            yield Server(http(f"{address}/v1", "key"), process.pid, keeps=True)
        finally:
            process.kill()


def http(base_url: str, api_key: str) -> HttpUpstream:
    """Return a way to ask a server."""
    return HttpUpstream("m", base_url, identity="m", api_key=api_key, events=NoEvents())


def words(source: random.Random, count: int) -> str:
    """Return a text."""
    return " ".join(source.choices(WORDS, k=count))


async def take_turns(servers: dict[str, Server], size: Size) -> dict[str, list[Messages]]:
    """Hold the conversations, of all servers; return them."""
    source = random.Random(5)
    system = words(source, size.system_words)
    talks: dict[str, list[Messages]] = {
        name: [[{"role": "system", "content": system}] for _ in range(size.conversations)]
        for name in servers
    }
    for _ in range(size.turns):
        for number in range(size.conversations):
            question = words(source, size.user_words)
            for name, server in servers.items():
                talk = talks[name][number]
                server.asked.append(await go_on(server, talk, question, size.answer_tokens))
    return talks


async def go_on(server: Server, talk: Messages, question: str, answer_tokens: int) -> Asked:
    """Ask the next question of a conversation."""
    talk.append({"role": "user", "content": question})
    asked = await server.ask(talk, answer_tokens)
    talk.append({"role": "assistant", "content": asked.text})
    return asked


async def ask_unlike(servers: Sequence[Server], size: Size) -> list[float]:
    """Ask prompts that begin with different tokens; return the processor time of each server."""
    source = random.Random(6)
    taken = [0.0] * len(servers)
    for number in range(size.unlike):
        # Without a system prompt of its own the template would put one before everything.
        text = f"{WORDS[number]} {words(source, size.unlike_words)}"
        for place, server in enumerate(servers):
            asked = await server.ask([{"role": "system", "content": text}], 1)
            taken[place] += asked.cpu_seconds
    return taken


def row(name: str, asked: Sequence[Asked], pid: int | None) -> dict[str, object]:
    """Return what a server did."""
    prompt = sum(one.usage.prompt_tokens for one in asked)
    cached = sum(one.usage.cached_tokens or 0 for one in asked)
    return {
        "server": name,
        "prompt_tokens": prompt,
        "cached": cached / prompt,
        "ttft_median_seconds": statistics.median(one.ttft_seconds for one in asked),
        "seconds": sum(one.seconds for one in asked),
        "cpu_seconds": sum(one.cpu_seconds for one in asked),
        "peak_mib": round(peak_bytes(pid) / (1 << 20)) if pid is not None else "",
    }


def unique_share(asked: Sequence[Asked], size: Size) -> float:
    """Return the share that is cached at best: each token of the conversations computed once.

    About: the last token of a prompt is always computed again.
    """
    longest = asked[-size.conversations :]
    system = max(one.usage.cached_tokens or 0 for one in asked[: size.conversations])
    # Of each conversation its last prompt, and of what all share one copy. Answers were written,
    # not read: their tokens cost nothing as part of later prompts.
    once = sum(one.usage.prompt_tokens for one in longest) - (len(longest) - 1) * system
    once -= (size.turns - 1) * size.conversations * size.answer_tokens
    return 1 - once / sum(one.usage.prompt_tokens for one in asked)


async def run(place: Path, size: Size) -> tuple[list[dict[str, object]], dict[str, float]]:
    """Ask everything; return rows and ratios."""
    with ExitStack() as stack:
        cold = stack.enter_context(embedded(place / "cold", keeps=False))
        with ExitStack() as first:
            ours = first.enter_context(embedded(place / "ours", keeps=True))
            other = first.enter_context(plain())
            servers = {"ours": ours, "plain": other, "cold": cold}
            talks = await take_turns(servers, size)
            rows = [row(name, server.asked, server.pid) for name, server in servers.items()]
            for server in (ours, other):
                await server.upstream.aclose()
        again = stack.enter_context(embedded(place / "ours", keeps=True))
        restarted = [await go_on(again, talk, "And then?", 1) for talk in talks["ours"]]
        rows.append(row("ours, after a restart", restarted, again.pid))
        unlike = await ask_unlike([again, cold], size)
        for server in (again, cold):
            await server.upstream.aclose()
    by_name = dict(zip(servers, rows, strict=False))
    return rows, ratios(by_name, unlike, unique_share(ours.asked, size))


def ratios(of: dict[str, Any], unlike: Sequence[float], best: float) -> dict[str, float]:
    """Return what is to be compared, each within this run."""
    ours, cold = of["ours"], of["cold"]
    return {
        "cached_at_best": best,
        "ttft_cold_over_ours": cold["ttft_median_seconds"] / ours["ttft_median_seconds"],
        "ttft_plain_over_ours": of["plain"]["ttft_median_seconds"] / ours["ttft_median_seconds"],
        "whole_time_saved": 1 - ours["seconds"] / cold["seconds"],
        "cpu_saved": 1 - ours["cpu_seconds"] / cold["cpu_seconds"],
        "cpu_of_nothing_alike_ours_over_cold": unlike[0] / unlike[1],
    }


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__)
    with tempfile.TemporaryDirectory() as place:
        rows, compared = asyncio.run(run(Path(place), SMOKE if arguments.smoke else FULL))
    print_table(rows, list(rows[0]))
    for name, ratio in compared.items():
        print(f"{name}: {ratio:.3f}")
    write("embedded_prefix", {"servers": rows, "ratios": compared}, arguments.json)


if __name__ == "__main__":
    main()
