"""Requests, load made of them, and what a server spends under it.

The generator is wrk where it is installed; otherwise, and for times under a second, it is our own
(`own_load`), which costs more CPU than a fast server does: then requests/s and latency say more of
the generator than of the server, while the server's CPU time is measured as well as ever.
"""

import asyncio
import functools
import http.client
import itertools
import json
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import orjson
from processes import Server

SEED = 7
TOKEN = "sk-benchmark"

SERIAL = b"#" * 12
"""In a request: replaced by a number that no other request has."""

_WRK_BLOCK = 10**8
"""Numbers set aside for one run of wrk, which counts them itself."""

_numbers = itertools.count(1)
_blocks = itertools.count(1)
_WORDS = (
    "a about after all bridge by can committee could day first for from great had hall her him "
    "house in into is it its like long made many meeting more most much old on one only other our "
    "over people river said see she should so some than that the their them then there these they "
    "this time to two up very was water we well were which who will with would years you your"
).split()


@dataclass(frozen=True)
class Reply:
    """One reply, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Load:
    """What a load generator saw."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    failed: int
    """Replies with another status than 200, and connections that broke."""


def prompt(number: int, size_bytes: int) -> str:
    """Return an English text of exactly ``size_bytes``, the same for the same number."""
    chooser = random.Random(f"{SEED} {number}")
    text = f"Comment on note {number}: " + " ".join(chooser.choices(_WORDS, k=size_bytes))
    return text[:size_bytes]


def chat_body(content: str, *, stream: bool = False) -> bytes:
    """Return the body of a chat request with one user message."""
    streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    messages = [{"role": "user", "content": content}]
    return orjson.dumps({"model": "fake", "messages": messages, "temperature": 0, **streaming})


def http_request(
    body: bytes,
    *,
    path: str = "/v1/chat/completions",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a whole POST request, with a bearer token and no more fields than needed."""
    fields = {
        "host": "127.0.0.1",
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        **(headers or {}),
        "content-length": str(len(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def numbered(request: bytes) -> bytes:
    """Return ``request`` with a number of its own, if it asks for one."""
    return request.replace(SERIAL, b"%012d" % next(_numbers))


def send(port: int, request: bytes) -> Reply:
    """Send one request on a connection of its own and return the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(numbered(request))
        response = http.client.HTTPResponse(connection)
        response.begin()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, fields, response.read())


def generator(seconds: float) -> str:
    """Return which load generator `measure_load` takes for so long a time."""
    return "wrk" if seconds >= 1 and shutil.which("wrk") else "own"


def measure_load(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Send requests on kept connections, each as soon as the one before is answered.

    Args:
        port: Where the server listens on loopback.
        requests: Whole requests, sent in rotation.
        connections: Requests under way at any time.
        seconds: How long.
    """
    if generator(seconds) == "wrk":
        return wrk_load(port, requests, connections, round(seconds))
    return own_load(port, requests, connections, seconds)


@dataclass(frozen=True)
class Sample:
    """One round of load on one server."""

    rate: float
    """Requests a second."""
    cpu_us: float
    """CPU time of the server for a request, user and system."""
    p50_us: float
    p99_us: float


def sample(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> Sample:
    """Put load on a server, as `measure_load`, and see what it spends.

    Raises:
        RuntimeError: No reply came, or some were not 200.
    """
    before = server.cpu_seconds()
    load = measure_load(server.port, requests, connections, seconds)
    spent = server.cpu_seconds() - before
    if load.failed or not load.requests:
        raise RuntimeError(f"{server.url}: {load.failed} of {load.requests} requests failed")
    rate = load.requests / load.seconds
    return Sample(rate, spent / load.requests * 1e6, load.p50_us, load.p99_us)


def medians(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the median of each figure, for a table."""
    return {
        "req/s": round(statistics.median(s.rate for s in samples)),
        "cpu us": round(statistics.median(s.cpu_us for s in samples), 1),
        "p50 us": round(statistics.median(s.p50_us for s in samples)),
        "p99 us": round(statistics.median(s.p99_us for s in samples)),
    }


def wrk_load(port: int, requests: Sequence[bytes], connections: int, seconds: int) -> Load:
    """As `measure_load`, by wrk with one thread."""
    script = _WRK_SCRIPT % (", ".join(map(_lua_parts, requests)), next(_blocks) * _WRK_BLOCK)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", file.name]
        command += ["--timeout", "30s", f"http://127.0.0.1:{port}/"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    return Load(seen["requests"], seen["us"] / 1e6, seen["p50"], seen["p99"], seen["failed"])


_WRK_SCRIPT = """
local requests, turn, serial = {%s}, 0, %d
request = function()
  turn = turn %% #requests + 1
  local parts = requests[turn]
  if #parts == 1 then return parts[1] end
  serial = serial + 1
  return parts[1] .. string.format("%%012d", serial) .. parts[2]
end
done = function(summary, latency, _)
  local e = summary.errors
  print(string.format('{"requests":%%d,"us":%%d,"p50":%%.1f,"p99":%%.1f,"failed":%%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def _lua_parts(request: bytes) -> str:
    """Return a request as a table: all of it, or what is before and after its number."""
    texts = ("".join(f"\\{byte:03d}" for byte in part) for part in request.split(SERIAL))
    return "{" + ", ".join(f'"{text}"' for text in texts) + "}"


def own_load(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """As `measure_load`, by an asyncio protocol in this process."""
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(_own_load(port, itertools.cycle(requests), connections, seconds))


def fast_loop() -> type[asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop, or ``None`` for the standard library's."""
    try:
        import uvloop  # noqa: PLC0415  (optional, as for the gateway)
    except ImportError:
        return None
    return uvloop.Loop


async def _own_load(port: int, rotation: Iterator[bytes], connections: int, seconds: float) -> Load:
    loop = asyncio.get_running_loop()
    make_client = functools.partial(_Client, rotation)
    started = time.perf_counter()
    clients = [
        (await loop.create_connection(make_client, "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    elapsed = time.perf_counter() - started
    for client in clients:
        client.stop()
    waited = sorted(itertools.chain.from_iterable(client.waited for client in clients))
    failed = sum(client.failed for client in clients)
    if not waited:
        return Load(0, elapsed, 0.0, 0.0, failed)
    p50, p99 = waited[len(waited) // 2], waited[len(waited) * 99 // 100]
    return Load(len(waited), elapsed, p50 * 1e6, p99 * 1e6, failed)


class _Client(asyncio.Protocol):
    """One connection that sends a request as soon as the one before is answered."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.waited: list[float] = []
        self.failed = 0
        self._requests = requests
        self._received = bytearray()
        self._sent_at = 0.0
        self._stopped = False
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not is_whole(self._received):
            return
        self.waited.append(time.perf_counter() - self._sent_at)
        self.failed += not self._received.startswith(b"HTTP/1.1 200")
        self._received.clear()
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.failed += not self._stopped

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        if self._transport is None or self._stopped:
            return
        request = numbered(next(self._requests))
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def is_whole(message: bytearray) -> bool:
    """Return whether a request or reply has come to its end. Field names may be in any case."""
    end = message.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(message[:end]).lower()
    _, named, rest = head.partition(b"\r\ncontent-length:")
    if named:
        return len(message) >= end + 4 + int(rest.partition(b"\r\n")[0])
    if b"\r\ntransfer-encoding:" in head:
        return message.endswith(b"\r\n0\r\n\r\n")
    return True
