"""A known vector through the gateway, beside what else could answer the same request.

    python benchmarks/embedding_gateway.py [--smoke] [--json OUT] [--litellm-python PYTHON]

One text of 200 bytes, 1,536 numbers, as JSON numbers or in base64 as OpenAI's client asks for it.

``stepwell``      the gateway, the vector in its memory.
``passed on``     the same gateway with ``embedding.enabled = "off"``: the model server is asked.
``exact hit``     the same gateway, a chat request of 1 KB with an answer of 2 KB: its hot path.
``litellm``       LiteLLM's proxy with its cache in memory; see `gateway_hit`.

The model server is as fast as Python has it, so that "passed on" is what the gateway alone takes.
Rounds go over all in turn; a ratio is the median of the ratios of each round.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
from gateway_hit import calls, litellm_version
from load import Sample, chat_body, generator, http_request, medians, prompt, sample, send
from peers import EXACT_ONLY, start_gateway, start_litellm, start_upstream
from processes import CPUS, Server, exit_on_sigterm, leave_the_first_cpu
from report import parse_arguments, print_table, write

OURS = "stepwell"
PASSED_ON = "passed on"
TEXTS = 64
TEXT_BYTES = 200
CONNECTIONS = (1, 16)
ENCODINGS = ("float", "base64")

OFF = EXACT_ONLY + '[embedding]\nenabled = "off"\n'


@dataclass(frozen=True)
class Contender:
    """A server, and how it is asked."""

    name: str
    server: Server
    is_chat: bool = False

    def requests(self, encoding: str) -> list[bytes]:
        """Return its requests."""
        if self.is_chat:
            return [http_request(chat_body(prompt(number, 1_024))) for number in range(TEXTS)]
        bodies = [
            {"model": "fake", "input": prompt(number, TEXT_BYTES), "encoding_format": encoding}
            for number in range(TEXTS)
        ]
        return [http_request(orjson.dumps(body), path="/v1/embeddings") for body in bodies]

    def prime(self) -> None:
        """Send everything twice.

        Raises:
            RuntimeError: It did not answer, or ours not from the cache.
        """
        for encoding in ENCODINGS:
            for request in self.requests(encoding) * 2:
                reply = send(self.server.port, request)
                if reply.status != 200:
                    raise RuntimeError(f"{self.name}: {reply.status}, {reply.body[:200]!r}")
            if self.name == OURS and reply.headers["x-cache"] != "HIT":
                raise RuntimeError(f"{self.name} does not answer from its cache")


Samples = Mapping[tuple[str, int], Mapping[str, Sequence[Sample]]]


def contend(contenders: Sequence[Contender], *, rounds: int, seconds: float) -> Samples:
    """Measure all in turn."""
    samples: dict[tuple[str, int], dict[str, list[Sample]]] = {
        (encoding, connections): defaultdict(list)
        for encoding in ENCODINGS
        for connections in CONNECTIONS
    }
    for _ in range(rounds):
        for (encoding, connections), by_name in samples.items():
            for contender in contenders:
                measured = sample(
                    contender.server, contender.requests(encoding), connections, seconds
                )
                by_name[contender.name].append(measured)
    return samples


def ratios(samples: Samples) -> list[dict[str, object]]:
    """Return how much CPU and time the others take, as a multiple of ours."""
    rows: list[dict[str, object]] = []
    for (encoding, connections), by_name in samples.items():
        for name in [name for name in by_name if name != OURS]:
            pairs = [
                (ours, theirs)
                for ours, theirs in zip(by_name[OURS], by_name[name], strict=True)
                if ours.cpu_us > 0
            ]
            if pairs:
                cpu = statistics.median(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs)
                p50 = statistics.median(theirs.p50_us / ours.p50_us for ours, theirs in pairs)
                row = {"encoding": encoding, "c": connections, "against": name}
                rows.append(row | {"cpu": round(cpu, 2), "p50": round(p50, 2)})
    return rows


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
        kept = stack.enter_context(start_gateway(directory, upstream.url))
        off = stack.enter_context(start_gateway(directory, upstream.url, settings=OFF))
        contenders = [
            Contender(OURS, kept),
            Contender(PASSED_ON, off),
            Contender("exact hit", kept, is_chat=True),
        ]
        if arguments.litellm_python is not None:
            proxy = start_litellm(directory, upstream.url, Path(arguments.litellm_python))
            contenders.append(Contender("litellm", stack.enter_context(proxy)))
        for contender in contenders:
            contender.prime()
        asked = calls(upstream)
        for encoding in ENCODINGS:
            sample(kept, contenders[0].requests(encoding), 1, seconds / 2)
        if calls(upstream) != asked:
            raise RuntimeError("some of the requests were no hits")
        samples = contend(contenders, rounds=rounds, seconds=seconds)
    rows = [
        {"encoding": encoding, "c": connections, "server": name, **medians(measured)}
        for (encoding, connections), by_name in samples.items()
        for name, measured in by_name.items()
    ]
    compared = ratios(samples)
    print_table(rows, ("encoding", "c", "server", "req/s", "cpu us", "p50 us", "p99 us"))
    print("\ntheirs / ours")
    print_table(compared, ("encoding", "c", "against", "cpu", "p50"))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "seconds": seconds,
        "generator": generator(seconds),
        "pinned": len(CPUS) > 1,
        "litellm": litellm_version(arguments.litellm_python),
        "servers": rows,
        "ratios": compared,
    }
    write("embedding_gateway", results, arguments.json)


if __name__ == "__main__":
    main()
