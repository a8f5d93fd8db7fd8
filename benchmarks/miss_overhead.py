"""What the gateway adds to a miss: against asking the same model server directly.

    python benchmarks/miss_overhead.py [--smoke] [--json OUT] [--litellm-python PYTHON]

The model server takes no time of its own (``benchmarks/peers.py``), so what is left is the
gateway's. Every request is a new one. ``stored`` is the ordinary miss: looked up, forwarded, kept
in memory and on disk; ``no-store`` is forwarded and not kept. Streams have 67 events and each is
a send of its own; how many of them the gateway finds in one read is up to the kernel. CPU is user
and system time of the gateway's processes alone. ``shipped fake`` is the package's own fake
upstream, asked directly, to see whether it would be a fair model server here.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from load import SERIAL, Sample, chat_body, generator, http_request, medians, prompt, sample, send
from peers import (
    EVENTS,
    start_gateway,
    start_litellm,
    start_nginx_proxy,
    start_proxy,
    start_upstream,
)
from processes import (
    CPUS,
    Server,
    exit_on_sigterm,
    free_port,
    leave_the_first_cpu,
    serving,
    versions,
)
from report import parse_arguments, print_table, write

PROMPT_BYTES = 1_024
PROMPTS = 16
DIRECT = "direct"
BARE = "bare proxy"
CONNECTIONS = (1, 16)


@dataclass(frozen=True)
class Way:
    """A way to the model server."""

    name: str
    server: Server
    headers: Mapping[str, str]
    least_seconds: float = 0.0
    """How long a round must last, if it is slow."""

    def requests(self, *, stream: bool) -> list[bytes]:
        """Return requests none of which is sent twice."""
        number = SERIAL.decode()
        texts = [prompt(n, PROMPT_BYTES - len(number)) + number for n in range(PROMPTS)]
        return [http_request(chat_body(it, stream=stream), headers=self.headers) for it in texts]


Samples = Mapping[tuple[str, int], Mapping[str, Sequence[Sample]]]


def measure(ways: Sequence[Way], *, rounds: int, seconds: float) -> Samples:
    """Measure all ways in turn.

    Raises:
        RuntimeError: A way through the gateway was none.
    """
    for way in ways:
        for stream in (False, True):
            reply = send(way.server.port, way.requests(stream=stream)[0])
            said = reply.headers.get("x-cache")
            if reply.status != 200 or (said is not None and said != "MISS"):
                raise RuntimeError(f"{way.name}: status {reply.status}, {said}")
    samples: dict[tuple[str, int], dict[str, list[Sample]]] = {
        (form, connections): defaultdict(list)
        for form in ("json", "stream")
        for connections in CONNECTIONS
    }
    for _ in range(rounds):
        for (form, connections), by_name in samples.items():
            for way in ways:
                requests = way.requests(stream=form == "stream")
                lasts = max(seconds, way.least_seconds)
                by_name[way.name].append(sample(way.server, requests, connections, lasts))
    return samples


def table(samples: Samples) -> Iterator[dict[str, object]]:
    """Yield a row for each form, number of connections and way."""
    for (form, connections), by_name in samples.items():
        for name, measured in by_name.items():
            figures = medians(measured)
            row: dict[str, object] = {"form": form, "c": connections, "way": name, **figures}
            pairs = list(zip(measured, by_name[DIRECT], strict=True))
            if name != DIRECT:
                added = statistics.median(way.p50_us - direct.p50_us for way, direct in pairs)
                row["added p50 us"] = round(added)
                both = zip(measured, by_name[BARE], strict=True)
                row["cpu / bare"] = round(
                    statistics.median(a.cpu_us / b.cpu_us for a, b in both), 2
                )
            if form == "stream":
                row["cpu us/event"] = round(figures["cpu us"] / EVENTS, 2)
            yield row


def start_shipped_fake(directory: Path) -> AbstractContextManager[Server]:
    """Run the package's own fake upstream."""
    port = free_port()
    command = [sys.executable, "-m", "stepwell.testing.fake_upstream", "--port", str(port)]
    return serving(command, port=port, ready_path="/v1/models", log=directory / "fake.log")


def start_ways(stack: ExitStack, directory: Path, litellm: str | None) -> list[Way]:
    """Start all servers that can be started."""

    def start(starting: AbstractContextManager[Server]) -> Server:
        return stack.enter_context(starting)

    upstream = start(start_upstream(directory))
    gateway = start(start_gateway(directory, upstream.url))
    ways = [
        Way(DIRECT, upstream, {}),
        Way("stored", gateway, {}),
        Way("no-store", gateway, {"cache-control": "no-store"}),
        Way(BARE, start(start_proxy(directory, upstream.url)), {}),
        Way("shipped fake", start(start_shipped_fake(directory)), {}),
    ]
    nginx = start_nginx_proxy(directory, upstream.url)
    if nginx is not None:
        ways.append(Way("nginx", start(nginx), {}))
    if litellm is not None:
        proxy = start(start_litellm(directory, upstream.url, Path(litellm)))
        ways.append(Way("litellm", proxy, {}, least_seconds=3.0))
    return ways


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(
        __doc__ or "", **{"litellm-python": "python of an environment with LiteLLM's proxy"}
    )
    exit_on_sigterm()
    leave_the_first_cpu()
    rounds, seconds = (1, 0.2) if arguments.smoke else (5, 1.0)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        ways = start_ways(stack, Path(name), arguments.litellm_python)
        rows = list(table(measure(ways, rounds=rounds, seconds=seconds)))
    columns = ("form", "c", "way", "req/s", "cpu us", "cpu us/event", "p50 us", "p99 us")
    print_table(rows, (*columns, "added p50 us", "cpu / bare"))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "seconds": seconds,
        "generator": generator(seconds),
        "pinned": len(CPUS) > 1,
        "versions": versions("uvicorn", "httptools", "uvloop", "aiohttp", "orjson"),
        "ways": rows,
    }
    write("miss_overhead", results, arguments.json)


if __name__ == "__main__":
    main()
