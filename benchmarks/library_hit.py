"""An exact hit in the library, step by step, against a bare dictionary.

    python benchmarks/library_hit.py [--smoke] [--json OUT]

``lookup`` is `stepwell.Cache.lookup` of a request that is in memory, as a program calls it; it
writes no log, the library's default. The steps below it are the same work done with the same
parts, one by one; those that are set in belong to the step above them. ``dict`` is the least any
cache keyed by the request must do: JSON, SHA-256, a look-up.

Times are CPU time of one call, over 64 requests in rotation; rounds go over everything in turn,
and medians are shown. GPTCache's exact match is not run here, because it installs packages when
it is imported. Measured apart, on another machine: 16 us of CPU time for a prompt of 20 words.
"""

import asyncio
import hashlib
import secrets
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from load import chat_body, fast_loop, prompt
from peers import start_upstream
from processes import exit_on_sigterm, leave_the_first_cpu, versions
from report import parse_arguments, print_table, write

from stepwell import Cache
from stepwell.assembly.house import House, Plan, build_house
from stepwell.assembly.settings import parse_settings
from stepwell.assembly.upstreams import http_targets
from stepwell.core.entry import Entry
from stepwell.core.names import Endpoint
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.question import Question
from stepwell.pipeline.repeats import Repeat, Repeats

REQUESTS = 64
SIZES = (1_024, 8_192)

Request = dict[str, Any]
Work = Callable[[], Awaitable[None] | None]
"""One round over all requests."""


class Steps:
    """The parts of a hit, each over all requests."""

    def __init__(
        self, house: House, requests: Sequence[Request], questions: Sequence[Question]
    ) -> None:
        self._house = house
        self._requests = requests
        self._repeats = Repeats(
            house.runner,
            house.exact,
            clock=house.clock,
            events=house.events,
            head_of=lambda _: b"",
        )
        self._digests = [digest(request) for request in requests]
        self._found: list[tuple[Repeat, Entry]] = []
        for name, question in zip(self._digests, questions, strict=True):
            self._repeats.remember(name, question)
            found = self._repeats.find(name, house.clock.now())
            assert found is not None
            self._found.append(found)

    def serialise_and_digest(self) -> None:
        for request in self._requests:
            digest(request)

    def find(self) -> None:
        now = self._house.clock.now
        for name in self._digests:
            self._repeats.find(name, now())

    def get_from_memory(self) -> None:
        for _, entry in self._found:
            self._house.exact.peek(entry.key)

    def render(self) -> None:
        for repeat, entry in self._found:
            self._repeats.body_of(repeat, entry)

    def count(self) -> None:
        for repeat, entry in self._found:
            self._repeats.count(repeat, entry, 0.000_01)


def digest(request: Request) -> bytes:
    """Return SHA-256 of a request as it is."""
    return hashlib.sha256(orjson.dumps(request)).digest()


async def measure(url: str, size: int, *, rounds: int) -> dict[str, float]:
    """Return microseconds of each step at one size of prompt."""
    requests: list[Request] = [
        orjson.loads(chat_body(prompt(number, size))) for number in range(REQUESTS)
    ]
    async with Cache(upstream=url) as cache:
        house = await _house(url)
        for request in requests:
            await cache.complete(request)
        steps = Steps(house, requests, await _ask_all(house, requests))
        bare = {digest(request): request for request in requests}

        async def lookup() -> None:
            for request in requests:
                found = await cache.lookup(request)
                assert found is not None

        def dictionary() -> None:
            for request in requests:
                assert bare[digest(request)] is request

        work: dict[str, Work] = {
            "lookup": lookup,
            "serialise + digest": steps.serialise_and_digest,
            "find": steps.find,
            "  memory get": steps.get_from_memory,
            "render": steps.render,
            "count": steps.count,
            "dict": dictionary,
        }
        times = await _alternate(work, rounds)
        await house.aclose()
    explained = ("serialise + digest", "find", "render", "count")
    times["rest"] = times["lookup"] - sum(times[name] for name in explained)
    return {name: round(value, 2) for name, value in times.items()}


async def _alternate(work: dict[str, Work], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, one_round in work.items():
            started = time.process_time_ns()
            awaited = one_round()
            if awaited is not None:
                await awaited
            taken[name].append((time.process_time_ns() - started) / REQUESTS / 1e3)
    return {name: statistics.median(values) for name, values in taken.items()}


async def _house(url: str) -> House:
    """Build what a `Cache` builds."""
    settings = parse_settings(
        {"log": {"target": "off"}, "upstreams": {"upstream": {"base_url": url}}}
    )
    return await build_house(Plan(settings, None, secrets.token_bytes(32)), http_targets)


async def _ask_all(house: House, requests: Sequence[Request]) -> list[Question]:
    tenant = Tenant("name:default", house.secret)
    questions = []
    for request in requests:
        ask = house.intake.take(Endpoint.CHAT, request, {}, tenant)
        await house.runner.answer(ask)
        questions.append(ask.question)
    return questions


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    exit_on_sigterm()
    leave_the_first_cpu()
    rounds = 20 if arguments.smoke else 1_000
    with (
        tempfile.TemporaryDirectory() as directory,
        start_upstream(Path(directory)) as upstream,
        asyncio.Runner(loop_factory=fast_loop()) as runner,
    ):
        by_size = {
            size: runner.run(measure(f"{upstream.url}/v1", size, rounds=rounds)) for size in SIZES
        }
    print("CPU time of one call, us")
    columns = {f"{size >> 10} KB": us for size, us in by_size.items()}
    steps = next(iter(columns.values()))
    rows = [
        {"step": step, **{column: us[step] for column, us in columns.items()}} for step in steps
    ]
    print_table(rows, ("step", *columns))
    ratios = {column: round(us["lookup"] / us["dict"], 2) for column, us in columns.items()}
    print("\nlookup / dict:", ratios)
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "versions": versions("orjson"),
        "us": by_size,
        "lookup/dict": ratios,
    }
    write("library_hit", results, arguments.json)


if __name__ == "__main__":
    main()
