"""A thousand identical requests at once, none of them cached: how often is the model server asked?

    python benchmarks/single_flight.py [--smoke] [--json OUT]

All connections are open before the first request goes out. The model server takes half a second
before its reply begins. ``one`` is the time of a single request through the same gateway;
``all`` the time from the first request sent to the last reply read; every reply is compared with
the others. Rounds alternate between the two.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from load import SERIAL, chat_body, fast_loop, http_request, is_whole, numbered, prompt, send
from peers import ANSWER, STREAM_BODY, start_gateway, start_upstream
from processes import Server, exit_on_sigterm, versions
from report import parse_arguments, print_table, write

DELAY_SECONDS = 0.5
WORKERS = (1, 2)
CROWD = 1_000


@dataclass(frozen=True)
class Round:
    """One request, then a crowd of them."""

    one_seconds: float
    all_seconds: float
    calls: int
    """Of the model server, for the crowd."""
    wrong: int
    """Replies of the crowd that were not the whole answer."""


def one_round(gateway: Server, upstream: Server, crowd: int, *, stream: bool) -> Round:
    """Ask a new question alone, and another one by a crowd."""
    content = prompt(0, 1_024) + SERIAL.decode()
    request = http_request(chat_body(content, stream=stream))
    expected = STREAM_BODY if stream else ANSWER
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        one, _ = runner.run(burst(gateway.port, numbered(request), 1))
        before = _calls(upstream)
        seconds, replies = runner.run(burst(gateway.port, numbered(request), crowd))
    wrong = sum(not _is_answer(reply, expected) for reply in replies)
    return Round(one, seconds, _calls(upstream) - before, wrong)


async def burst(port: int, request: bytes, count: int) -> tuple[float, list[bytes]]:
    """Send one request on many connections at once.

    Returns:
        Seconds until the last reply was read, and the replies.
    """
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    started = time.perf_counter()
    for _, writer in streams:
        writer.write(request)
    replies = await asyncio.gather(*(_read(reader) for reader, _ in streams))
    elapsed = time.perf_counter() - started
    for _, writer in streams:
        writer.close()
    return elapsed, replies


async def _read(reader: asyncio.StreamReader) -> bytes:
    received = bytearray()
    while not is_whole(received):
        piece = await reader.read(1 << 16)
        if not piece:
            break
        received += piece
    return bytes(received)


def _is_answer(reply: bytes, expected: bytes) -> bool:
    """Return whether a reply carries ``expected``, in one piece or in chunks."""
    head, _, body = reply.partition(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked" in head:
        body = _joined(body)
    return head.startswith(b"HTTP/1.1 200 ") and body == expected


def _joined(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(body[:length])
        body = body[length + 2 :]
    return b"".join(pieces)


def _calls(upstream: Server) -> int:
    return int(send(upstream.port, b"GET /calls HTTP/1.1\r\n\r\n").body)


def summary(rounds: Sequence[Round]) -> dict[str, object]:
    """Return the worst number of calls and wrong replies, and the medians of the times."""
    one = statistics.median(it.one_seconds for it in rounds)
    everyone = statistics.median(it.all_seconds for it in rounds)
    ratio = statistics.median(it.all_seconds / it.one_seconds for it in rounds)
    return {
        "calls": max(it.calls for it in rounds),
        "wrong": max(it.wrong for it in rounds),
        "one ms": round(one * 1e3),
        "all ms": round(everyone * 1e3),
        "all / one": round(ratio, 2),
    }


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    exit_on_sigterm()
    rounds, crowd = (1, 200) if arguments.smoke else (5, CROWD)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with start_upstream(directory, delay_seconds=DELAY_SECONDS) as upstream:
            for workers in WORKERS:
                with start_gateway(directory, upstream.url, workers=workers) as gateway:
                    for stream in (False, True):
                        measured = [
                            one_round(gateway, upstream, crowd, stream=stream)
                            for _ in range(rounds)
                        ]
                        form = "stream" if stream else "json"
                        rows.append({"workers": workers, "form": form, **summary(measured)})
    print(f"{crowd} identical requests at once, model server {DELAY_SECONDS} s")
    print_table(rows, ("workers", "form", "calls", "wrong", "one ms", "all ms", "all / one"))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "requests": crowd,
        "versions": versions("uvicorn", "httptools", "uvloop", "aiohttp"),
        "rows": rows,
    }
    write("single_flight", results, arguments.json)


if __name__ == "__main__":
    main()
