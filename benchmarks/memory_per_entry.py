"""What an entry of the memory tier takes in the process, against what it is charged.

    python benchmarks/memory_per_entry.py [--smoke] [--json OUT]

Entries come about as they do in a worker: ``filled`` from a parsed request and an answer, through
intake and fill; ``read`` from a record of the disk store. ``question`` is no entry: it is what
the gateway's hot path remembers of a request beside its entry. Each row is measured in a process
of its own. ``rss`` is what that process grew by, an entry; ``traced`` what `tracemalloc` counts,
which leaves out what the allocator holds in reserve; ``overhead`` is rss without the body, what
`ENTRY_OVERHEAD_BYTES` stands for.
"""

import asyncio
import gc
import hashlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from load import TOKEN, chat_body, prompt
from processes import PROJECT, exit_on_sigterm
from report import parse_arguments, print_table, write

from stepwell.assembly.house import House, Plan, build_house
from stepwell.assembly.settings import parse_settings
from stepwell.assembly.upstreams import http_targets
from stepwell.core.entry import ENTRY_OVERHEAD_BYTES, Answer, Entry
from stepwell.core.names import Endpoint, Form, Position
from stepwell.gateway.hot import HotPath
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.fill import Came, Made, fill
from stepwell.pipeline.question import Question
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.memory import MemoryStore
from stepwell.stores.record import decode, encode
from stepwell.wire.summary import summarise

ROWS = (
    ("filled", 512, 10_000),
    ("filled", 512, 100_000),
    ("filled", 2_048, 10_000),
    ("filled", 2_048, 100_000),
    ("filled", 8_192, 20_000),
    ("read", 512, 20_000),
    ("read", 2_048, 20_000),
    ("read", 8_192, 20_000),
    ("question", 0, 20_000),
)
SMOKE_ROWS = (("filled", 512, 2_000), ("read", 2_048, 2_000), ("question", 0, 2_000))
MOST_TRACED = 10_000
"""Tracing is slow, so of more entries only so many are traced."""
WARM_UP_ENTRIES = 500
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def new_body(number: int, size: int) -> bytes:
    """Return an answer of exactly ``size`` bytes."""
    text = f"{number:012d}"
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1_000 + number, "completion_tokens": 300, "total_tokens": 0}
    whole = orjson.dumps({"object": "chat.completion", "choices": [choice], "usage": usage})
    return whole.replace(text.encode(), text.encode() + b"x" * (size - len(whole)))


def questions(house: House) -> Iterator[Question]:
    """Yield questions as the gateway makes them, each from bytes of its own."""
    tenant = Tenant(f"token:{TOKEN}", house.secret)
    text = prompt(0, 200)
    number = 0
    while True:
        number += 1
        body = orjson.loads(chat_body(f"{text} {number}"))
        yield house.intake.take(Endpoint.CHAT, body, {}, tenant).question


def filled(house: House, size: int) -> Iterator[Entry]:
    """Yield entries made of answers to questions."""
    made = Made(as_of=Position(0), sources=(), last_invalidation=Position(0))
    for number, question in enumerate(questions(house)):
        answer = Answer(Form.JSON, new_body(number, size))
        came = Came(200, answer, summarise(Endpoint.CHAT, answer), 0.5 + number / 1e6)
        entry = fill(question, came, made, time.time())
        if not isinstance(entry, Entry):
            raise TypeError(f"the gate {entry} refused an answer")
        yield entry


def keep(kind: str, size: int, house: House) -> Callable[[], None]:
    """Return what keeps one more of a kind."""
    if kind == "question":
        hot = HotPath(house.runner, house.exact, clock=house.clock, events=house.events)
        asked = questions(house)

        def remember() -> None:
            question = next(asked)
            hot.remember(hashlib.sha256(question.key or b"").digest(), question)

        return remember

    memory = MemoryStore(
        Adaptive(), max_entries=10**6, max_bytes=1 << 34, clock=house.clock, events=house.events
    )
    entries = filled(house, size)

    def put() -> None:
        entry = next(entries)
        memory.put(decode(encode(entry)) if kind == "read" else entry)

    return put


async def measure(kind: str, size: int, count: int, *, traced: bool) -> float:
    """Return bytes an entry, in this process, in which nothing was measured before."""
    settings = parse_settings(
        {"log": {"target": "off"}, "upstreams": {"upstream": {"base_url": "http://127.0.0.1/v1"}}}
    )
    house = await build_house(Plan(settings, None, bytes(32)), http_targets)
    keep_one = keep(kind, size, house)
    _repeat(keep_one, WARM_UP_ENTRIES)
    if traced:
        tracemalloc.start()
    grown = _growth(keep_one, count, _traced_bytes if traced else _rss_bytes)
    await house.aclose()
    return grown


def _growth(work: Callable[[], None], count: int, measured: Callable[[], int]) -> float:
    gc.collect()
    before = measured()
    _repeat(work, count)
    gc.collect()
    return (measured() - before) / count


def _repeat(work: Callable[[], None], count: int) -> None:
    for _ in range(count):
        work()


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def _traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def _in_child(kind: str, size: int, count: int, *, traced: bool) -> int:
    command = [sys.executable, __file__, "--child", json.dumps([kind, size, count, traced])]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, text=True)
    return round(float(done.stdout))


def row(kind: str, size: int, count: int) -> dict[str, object]:
    """Measure one row, each figure in a process of its own."""
    rss = _in_child(kind, size, count, traced=False)
    traced = _in_child(kind, size, min(count, MOST_TRACED), traced=True)
    charged = 0 if kind == "question" else size + ENTRY_OVERHEAD_BYTES
    figures: dict[str, object] = {"kind": kind, "body": size, "entries": count}
    figures |= {"charged": charged, "rss": rss, "traced": traced, "overhead": rss - size}
    if charged:
        figures["rss / charged"] = round(rss / charged, 2)
    return figures


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(
        __doc__ or "",
        child="for one figure: JSON list of kind, bytes, entries, whether to trace",
    )
    if arguments.child:
        kind, size, count, traced = json.loads(arguments.child)
        print(asyncio.run(measure(kind, size, count, traced=traced)))
        return
    exit_on_sigterm()
    rows = [row(*which) for which in (SMOKE_ROWS if arguments.smoke else ROWS)]
    columns = ("kind", "body", "entries", "charged", "rss", "traced", "overhead", "rss / charged")
    print_table(rows, columns)
    print(f"\nENTRY_OVERHEAD_BYTES is {ENTRY_OVERHEAD_BYTES}")
    results = {
        "smoke": arguments.smoke,
        "entry_overhead_bytes": ENTRY_OVERHEAD_BYTES,
        "rows": rows,
    }
    write("memory_per_entry", results, arguments.json)


if __name__ == "__main__":
    main()
