"""An exact hit through the gateway, against what else could answer the same request.

    python benchmarks/gateway_hit.py [--smoke] [--json OUT] [--litellm-python PYTHON]

The gateway is started as users start it; its log lines go to a file. The others:

``constant``  uvicorn's HTTP protocol, writing the same bytes for every request: what the server
              we build on costs before anything is looked up.
``lookup``    uvicorn with a bare ASGI callable: body parsed, sorted, hashed, found in a dict.
``nginx``     the answer as a static file.
``litellm``   LiteLLM's proxy with its cache in memory, one worker, tuned: production mode,
              httptools, no logging. It needs an environment of its own::

                  python3 -m venv litellm
                  litellm/bin/pip install 'litellm[proxy]==1.108.7' httptools opentelemetry-sdk
                  python benchmarks/gateway_hit.py --litellm-python litellm/bin/python

All answer the same 64 requests in rotation, on kept connections, with the same 2 KB of JSON, or
the same stream of 67 events. Rounds go over all of them in turn; a ratio is the median of the
ratios of each round. "CPU" is user and system time of the server's processes.
"""

import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from load import (
    Sample,
    chat_body,
    generator,
    http_request,
    measure_load,
    medians,
    prompt,
    sample,
    send,
)
from peers import (
    ANSWER,
    STREAM_BODY,
    STREAM_PATH,
    start_constant,
    start_gateway,
    start_litellm,
    start_lookup,
    start_nginx,
    start_upstream,
)
from processes import CPUS, Server, exit_on_sigterm, leave_the_first_cpu, versions
from report import parse_arguments, print_table, write

OURS = "stepwell"
PROMPTS = 64
CONNECTIONS = (1, 16, 64)


@dataclass(frozen=True)
class Case:
    """One kind of request."""

    name: str
    prompt_bytes: int
    stream: bool
    answer: bytes


CASES = (
    Case("1 KB prompt", 1_024, stream=False, answer=ANSWER),
    Case("8 KB prompt", 8_192, stream=False, answer=ANSWER),
    Case("1 KB prompt, stream", 1_024, stream=True, answer=STREAM_BODY),
)


@dataclass(frozen=True)
class Contender:
    """A server that answers the cases."""

    name: str
    server: Server
    by_path: bool = False
    """It does not read bodies: whether to stream is told by the path."""
    cases: Sequence[Case] = CASES
    rewrites: bool = False
    """It answers with JSON of its own making."""
    rounds_last: float = 1.0
    """Times as long: in the others' time a slow server may not answer all connections once."""

    def requests(self, case: Case) -> list[bytes]:
        """Return the requests of a case.

        Streams ask other questions: an answer stored as JSON is replayed as a stream of our own.
        """
        path = STREAM_PATH if self.by_path and case.stream else "/v1/chat/completions"
        first = PROMPTS if case.stream else 0
        return [
            http_request(
                chat_body(prompt(number, case.prompt_bytes), stream=case.stream), path=path
            )
            for number in range(first, first + PROMPTS)
        ]

    def prime(self) -> None:
        """Send everything twice.

        Raises:
            RuntimeError: An answer was wrong, or the second was none from our cache.
        """
        for case in self.cases:
            requests = self.requests(case)
            for request in (*requests, *requests):
                reply = send(self.server.port, request)
                if reply.status != 200 or not (self.rewrites or reply.body == case.answer):
                    raise RuntimeError(
                        f"{self.name}, {case.name}: status {reply.status}, {reply.body[:200]!r}"
                    )
            if self.name == OURS and reply.headers["x-cache"] != "HIT":
                raise RuntimeError(f"{self.name} does not answer from its cache: {reply.headers}")


COMPARED: Mapping[str, Callable[[Sample, Sample], float]] = {
    "req/s, ours / theirs": lambda us, them: us.rate / them.rate,
    "cpu, theirs / ours": lambda us, them: them.cpu_us / us.cpu_us,
    "p50, ours / theirs": lambda us, them: us.p50_us / them.p50_us,
    "p99, ours / theirs": lambda us, them: us.p99_us / them.p99_us,
}

Samples = Mapping[tuple[Case, int], Mapping[str, Sequence[Sample]]]


def contend(
    contenders: Sequence[Contender], upstream: Server, *, rounds: int, seconds: float
) -> Samples:
    """Measure all contenders in turn, and that none of them asked the model server.

    Raises:
        RuntimeError: One did.
    """
    for contender in contenders:
        contender.prime()
        for case in contender.cases:
            measure_load(contender.server.port, contender.requests(case), 1, seconds / 2)
    asked = calls(upstream)
    samples: dict[tuple[Case, int], dict[str, list[Sample]]] = {
        (case, connections): defaultdict(list) for case in CASES for connections in CONNECTIONS
    }
    for _ in range(rounds):
        for (case, connections), by_name in samples.items():
            for contender in contenders:
                if case in contender.cases:
                    requests, lasts = contender.requests(case), seconds * contender.rounds_last
                    by_name[contender.name].append(
                        sample(contender.server, requests, connections, lasts)
                    )
    if (more := calls(upstream) - asked) != 0:
        raise RuntimeError(f"{more} of the requests measured were no hits")
    return samples


def calls(upstream: Server) -> int:
    """Return how often the model server was asked."""
    return int(send(upstream.port, b"GET /calls HTTP/1.1\r\n\r\n").body)


def table(samples: Samples) -> Iterator[dict[str, object]]:
    """Yield a row for each case, number of connections and contender."""
    for (case, connections), by_name in samples.items():
        for name, measured in by_name.items():
            yield {"case": case.name, "c": connections, "server": name, **medians(measured)}


def ratios(samples: Samples) -> Iterator[dict[str, object]]:
    """Yield how many times faster and cheaper we are than each other server."""
    for (case, connections), by_name in samples.items():
        for name, theirs in by_name.items():
            if name != OURS:
                pairs = list(zip(by_name[OURS], theirs, strict=True))
                row: dict[str, object] = {"case": case.name, "c": connections, "against": name}
                for figure, compare in COMPARED.items():
                    row |= _compared(figure, pairs, compare)
                yield row


def _compared(
    name: str,
    pairs: Sequence[tuple[Sample, Sample]],
    compare: Callable[[Sample, Sample], float],
) -> dict[str, float]:
    # In a very short round a server may spend no whole tick of the clock.
    comparable = [pair for pair in pairs if min(it.cpu_us for it in pair) > 0]
    if not comparable:
        return {}
    return {name: round(statistics.median(compare(*pair) for pair in comparable), 3)}


def stream_ratio(samples: Samples) -> dict[str, float]:
    """Return our rate of streams as a share of our rate of JSON, by number of connections."""
    json, _, stream = CASES
    return {
        str(connections): round(
            statistics.median(
                streamed.rate / whole.rate
                for streamed, whole in zip(
                    samples[stream, connections][OURS],
                    samples[json, connections][OURS],
                    strict=True,
                )
            ),
            2,
        )
        for connections in CONNECTIONS
    }


def start_contenders(
    stack: ExitStack, directory: Path, upstream: Server, litellm: str | None
) -> list[Contender]:
    """Start all servers that can be started."""

    def start(starting: AbstractContextManager[Server]) -> Server:
        return stack.enter_context(starting)

    contenders = [
        Contender(OURS, start(start_gateway(directory, upstream.url))),
        Contender("constant", start(start_constant(directory)), by_path=True),
        Contender("lookup", start(start_lookup(directory))),
    ]
    nginx = start_nginx(directory)
    if nginx is not None:
        contenders.append(Contender("nginx", start(nginx), by_path=True))
    if litellm is not None:
        proxy = start(start_litellm(directory, upstream.url, Path(litellm)))
        contenders.append(
            Contender("litellm", proxy, cases=CASES[:1], rewrites=True, rounds_last=3.0)
        )
    return contenders


def litellm_version(python: str | None) -> str:
    """Return the version in LiteLLM's environment."""
    if python is None:
        return "not installed"
    code = "import importlib.metadata as m; print(m.version('litellm'))"
    done = subprocess.run([python, "-c", code], capture_output=True, check=True, text=True)
    return done.stdout.strip()


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(
        __doc__ or "", **{"litellm-python": "python of an environment with LiteLLM's proxy"}
    )
    exit_on_sigterm()
    leave_the_first_cpu()
    rounds, seconds = (1, 0.1) if arguments.smoke else (5, 1.0)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        upstream = stack.enter_context(start_upstream(directory))
        contenders = start_contenders(stack, directory, upstream, arguments.litellm_python)
        idle = {contender.name: contender.server.rss_bytes() for contender in contenders}
        samples = contend(contenders, upstream, rounds=rounds, seconds=seconds)
    rows, compared = list(table(samples)), list(ratios(samples))
    print_table(rows, ("case", "c", "server", "req/s", "cpu us", "p50 us", "p99 us"))
    print()
    print_table(compared, ("case", "c", "against", *COMPARED))
    print("\nstreams as a share of the JSON rate, by connections:", stream_ratio(samples))
    print("resident when idle, MB:", {name: round(b / 1e6, 1) for name, b in idle.items()})
    used = versions("uvicorn", "httptools", "uvloop", "orjson")
    used["litellm"] = litellm_version(arguments.litellm_python)
    missing = [name for name in ("nginx", "litellm") if used[name] == "not installed"]
    if missing:
        print("not installed, so not measured:", ", ".join(missing))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "seconds": seconds,
        "generator": generator(seconds),
        "pinned": len(CPUS) > 1,
        "versions": used,
        "servers": rows,
        "ratios": compared,
        "stream_share": stream_ratio(samples),
        "idle_rss_bytes": idle,
    }
    write("gateway_hit", results, arguments.json)


if __name__ == "__main__":
    main()
