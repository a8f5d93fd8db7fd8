"""A real vLLM asked directly and through the gateway: time to first token, cold and warm; a chat.

Run it from the project root, after ``scripts/vllm-suite`` has installed vLLM; a start takes a
minute: ``STEPWELL_VLLM_PYTHON=... STEPWELL_VLLM_MODEL=... PYTHONPATH=tests
python benchmarks/vllm_gateway.py [--smoke] [--json out.json]``.

``first token``: a system prompt of random words that nobody has asked, then the same again under
another question of 48 words; both ways in turn, each with prompts of its own, so that neither finds
what the other left. Times are until the first token of a stream, medians of the rounds. ``x`` is
how many times faster than cold, the same way; ``added`` is the median over the rounds of what a
warm request took longer than the direct one beside it, and its share of a direct one; ``CPU ms`` is
what the gateway's process took of a request, in steps of 10 ms over all rounds; ``tokens ms`` is
what the server takes to name a prompt's tokens: with one server, the gateway asks for them beside
the request.

``chat``: conversations under one system prompt take turns, through the gateway. ``cached`` is the
share of all prompt tokens that the server reports it had, ``foretold`` the share that the gateway
foretold, ``met`` how much of that was there.
"""

import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from processes import CPUS, Server, exit_on_sigterm, free_port, serving
from report import parse_arguments, print_table, write
from support.vllm_gateway import WORDS, chat
from support.vllm_server import BLOCK_TOKENS, Installed, VllmServer, events_config

QUESTION_WORDS = 48
"""Of the words in front, which are the same, and the server's template."""

DIRECT, GATEWAY = "direct", "gateway"


@dataclass(frozen=True)
class Size:
    """How much is asked."""

    prefixes: tuple[int, ...]
    rounds: int
    conversations: int
    turns: int
    system_words: int
    answer_tokens: int


FULL = Size((1000, 2000), 9, 4, 6, 600, 32)
SMOKE = Size((300,), 2, 2, 2, 200, 8)


@dataclass(frozen=True)
class Asked:
    """One answer, and what it took."""

    seconds: float
    """Until its first token."""
    text: str
    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class Way:
    """A way to the server. Each request has a connection: idle ones are closed after 5 s."""

    name: str
    port: int

    def ask(self, body: dict[str, Any]) -> Asked:
        """Ask for a stream; read it to its end."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        fields = {"Content-Type": "application/json", "Authorization": "Bearer sk-benchmark"}
        sent = json.dumps({**body, **options})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600.0)
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", sent, fields)
        reply = connection.getresponse()
        if reply.status != 200 or reply.getheader("x-cache", "MISS") != "MISS":
            raise RuntimeError(f"{self.name}: {reply.status}, {reply.getheader('x-cache')}")
        parts: list[str] = []
        seconds = 0.0
        usage: dict[str, Any] = {}
        for event in _events(reply):
            usage = event.get("usage") or usage
            text = event["choices"][0]["delta"].get("content") if event["choices"] else None
            if text and not parts:
                seconds = time.perf_counter() - began
            parts += [text] if text else []
        connection.close()
        details = usage.get("prompt_tokens_details") or {}
        cached_tokens = details.get("cached_tokens") or 0
        return Asked(seconds, "".join(parts), usage["prompt_tokens"], cached_tokens)


def _events(reply: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in reply:
        data = line.removeprefix(b"data:").strip()
        if data.startswith(b"{"):
            yield json.loads(data)


def words(drawn: Random, count: int) -> str:
    """Return a text of about as many tokens."""
    return " ".join(drawn.choice(WORDS) for _ in range(count))


@dataclass(frozen=True)
class Round:
    """One prefix, asked twice one way."""

    cold: Asked
    warm: Asked
    cpu_seconds: float
    """Of the gateway, for both."""


def token_seconds(port: int, body: dict[str, Any]) -> float:
    """Return how long the server takes to name a prompt's tokens."""
    sent = json.dumps({"model": body["model"], "messages": body["messages"]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600.0)
    began = time.perf_counter()
    connection.request("POST", "/tokenize", sent, {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - began


def measure(way: Way, gateway: Server, prefix: int, drawn: Random) -> Round:
    """Ask a new prefix, and again under another question."""
    system = words(drawn, prefix)
    cpu = gateway.cpu_seconds()
    cold, warm = (
        way.ask(chat(system, words(drawn, QUESTION_WORDS), max_tokens=1)) for _ in range(2)
    )
    return Round(cold, warm, gateway.cpu_seconds() - cpu)


def first_tokens(
    ways: Sequence[Way], gateway: Server, size: Size, drawn: Random
) -> Iterator[dict[str, object]]:
    """Yield a row for each prefix and way."""
    for prefix in size.prefixes:
        rounds: dict[str, list[Round]] = {way.name: [] for way in ways}
        for number in range(size.rounds):
            for way in ways if number % 2 else reversed(ways):
                rounds[way.name].append(measure(way, gateway, prefix, drawn))
        body = chat(words(drawn, prefix), words(drawn, QUESTION_WORDS))
        named = [token_seconds(ways[0].port, body) for _ in range(size.rounds)]
        direct = rounds[DIRECT]
        for name, measured in rounds.items():
            pairs = zip(measured, direct, strict=True)
            added = statistics.median(way.warm.seconds - one.warm.seconds for way, one in pairs)
            of_warm = statistics.median(one.warm.seconds for one in direct)
            cold = statistics.median(one.cold.seconds for one in measured)
            warm = statistics.median(one.warm.seconds for one in measured)
            yield {
                "way": name,
                "prefix": prefix,
                "prompt": measured[0].warm.prompt_tokens,
                "cached": statistics.median(one.warm.cached_tokens for one in measured),
                "cold ms": cold * 1e3,
                "warm ms": warm * 1e3,
                "x": cold / warm,
                "added ms": added * 1e3,
                "added share": added / of_warm,
                "CPU ms": 1e3 * sum(one.cpu_seconds for one in measured) / (2 * len(measured)),
                "tokens ms": statistics.median(named) * 1e3,
            }


def conversations(way: Way, size: Size, drawn: Random) -> dict[str, object]:
    """Return the sums over all turns of all conversations."""
    system = words(drawn, size.system_words)
    chats: list[list[str]] = [[] for _ in range(size.conversations)]
    asked: list[Asked] = []
    for _ in range(size.turns):
        for turns in chats:
            turns.append(words(drawn, 25))
            asked.append(way.ask(chat(system, *turns, max_tokens=size.answer_tokens)))
            turns.append(asked[-1].text)
    prompt_tokens = sum(one.prompt_tokens for one in asked)
    return {
        "requests": len(asked),
        "prompt": prompt_tokens,
        "cached": sum(one.cached_tokens for one in asked) / prompt_tokens,
        "first ms": asked[0].seconds * 1e3,
        "median ms": statistics.median(one.seconds for one in asked[1:]) * 1e3,
    }


def foretold(port: int) -> tuple[int, int]:
    """Return how many tokens the gateway foretold so far, and how many of them were there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
    connection.request("GET", "/admin/replicas")
    agreed = json.loads(connection.getresponse().read())["replicas"][0]["agreed"]
    connection.close()
    return agreed["foretold_tokens"], agreed["met_tokens"]


def start_gateway(stack: ExitStack, folder: Path, base_url: str) -> Server:
    """Run the gateway as a user would, in front of one server that tells its KV events."""
    told = events_config(folder)
    settings = folder / "settings.toml"
    settings.write_text(
        f"""
        [semantic]
        embedder = "off"
        [upstreams.llm]
        base_url = "{base_url}"
        engine = "vllm"
        dialect = "engine"
        [upstreams.llm.prefix]
        block_tokens = {BLOCK_TOKENS}
        kv_events = ["{told["endpoint"]}"]
        kv_replays = ["{told["replay_endpoint"]}"]
        """
    )
    port = free_port()
    command = [sys.executable, "-m", "stepwell.cli.main", "serve", "--config", str(settings)]
    command += ["--port", str(port), "--data", str(folder / "data"), "--workers", "1"]
    log = folder / "gateway.log"
    # Wherever there is room: vLLM computes on all of them.
    return stack.enter_context(
        serving(command, port=port, ready_path="/readyz", log=log, cpus=CPUS)
    )


def run(installed: Installed, size: Size) -> dict[str, list[dict[str, object]]]:
    """Start both servers, and measure."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-vllm-")))
        options = ["--kv-events-config", json.dumps(events_config(folder))]
        server = VllmServer(installed, folder / "log", options)
        stack.callback(server.stop)
        server.start()
        gateway = start_gateway(stack, folder, server.base_url)
        ways = [Way(DIRECT, server.port), Way(GATEWAY, gateway.port)]
        drawn = Random(1)
        for way in ways:
            measure(way, gateway, 100, drawn)
        first = list(first_tokens(ways, gateway, size, drawn))
        before = foretold(gateway.port)
        chats = conversations(ways[1], size, drawn)
        told, met = (now - then for now, then in zip(foretold(gateway.port), before, strict=True))
        of_prompt = {"foretold": told / int(str(chats["prompt"])), "met": met / max(1, told)}
        return {"first token": first, "chat": [{**chats, **of_prompt}]}


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments(__doc__ or "")
    python, model = os.environ.get("STEPWELL_VLLM_PYTHON"), os.environ.get("STEPWELL_VLLM_MODEL")
    if not python or not model:
        sys.exit("needs vLLM: scripts/vllm-suite installs it, and says where")
    exit_on_sigterm()
    results = run(Installed(Path(python), Path(model)), SMOKE if arguments.smoke else FULL)
    for name, rows in results.items():
        print(f"{name}:")
        print_table(rows, list(rows[0]))
    write("vllm_gateway", results, arguments.json)


if __name__ == "__main__":
    main()
