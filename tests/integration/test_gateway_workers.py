"""Two workers are one gateway: they share calls, entries, invalidations and counts.

A worker is made to serve by stopping the other (SIGSTOP): they accept from one socket.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.gateway import Answer, Gateway, question

from stepwell.testing.fake_upstream import FakeUpstream, Script

STREAM = {"stream": True}


@dataclass
class Workers(Gateway):
    """A gateway in processes of its own. Every request is a new connection."""

    process: asyncio.subprocess.Process

    def workers(self) -> set[int]:
        """Return the worker processes that are there now."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(child) for child in children.split() if _is_worker(child)}

    @contextmanager
    def only(self, worker: int) -> Iterator[None]:
        """Let only one worker serve."""
        others = self.workers() - {worker}
        for other in others:
            os.kill(other, signal.SIGSTOP)
        try:
            yield
        finally:
            for other in others & self.workers():
                os.kill(other, signal.SIGCONT)

    async def metrics(self, *, until: Callable[[str], bool]) -> str:
        """Return the metrics page, once it says what it should; the last one after a while."""
        page = ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while not until(page):
                    page = (await self.get("/metrics")).body.decode()
                    await asyncio.sleep(0.05)
        return page

    async def pair(self) -> list[int]:
        """Return two workers that are both ready."""
        async with asyncio.timeout(30):
            await until(lambda: len(self.workers()) == 2)
            pair = sorted(self.workers())
            for worker in pair:
                with self.only(worker):
                    await self.ready()
        return pair

    async def ready(self) -> None:
        """Return when somebody answers."""
        while True:
            try:
                if (await self.get("/readyz")).status == 200:
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


async def until(holds: Callable[[], bool]) -> None:
    """Return once something outside this process is so."""
    while not holds():  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.02)


def total(page: str) -> float:
    """Return how many requests a metrics page counts."""
    counts = re.findall(r"^stepwell_requests_total\{.*\} (\S+)$", page, re.MULTILINE)
    return sum(map(float, counts))


def _is_worker(process: str) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


@asynccontextmanager
async def running(upstream: FakeUpstream, directory: Path) -> AsyncIterator[Workers]:
    """Run ``stepwell serve`` with two workers until the block ends."""
    log = directory / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stepwell.cli.main", "serve"),
            *("--upstream", upstream.base_url, "--port", "0", "--workers", "2"),
            *("--data", str(directory / "data")),
            stderr=stderr,
        )
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as http, asyncio.timeout(60):
            while (listens := re.search(rb"listens on (\S+)/v1", log.read_bytes())) is None:
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
            gateway = Workers(listens[1].decode(), http, process)
            await gateway.pair()
            yield gateway
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
    assert b"Traceback" not in log.read_bytes()


def calls(upstream: FakeUpstream, model: str) -> int:
    """Return how many calls there were for one model."""
    return sum(received.json().get("model") == model for received in upstream.calls)


def verdicts(answers: list[Answer]) -> Counter[str]:
    """Count what the answers say of themselves."""
    return Counter(str(answer.headers["x-cache"]) for answer in answers)


async def share_calls(gateway: Workers, upstream: FakeUpstream) -> int:
    """Check single-flight over both workers; return how many requests were sent."""
    for shape in ({}, STREAM):
        for model, script in (
            (f"fast{len(shape)}", Script()),
            (f"slow{len(shape)}", Script(head_delay_seconds=0.5)),
            (f"live{len(shape)}", Script(event_delay_seconds=0.1)),
        ):
            upstream.scripts[model] = script
            answers = await asyncio.gather(
                *[gateway.ask("the question", model=model, **shape) for _ in range(200)]
            )
            assert calls(upstream, model) == 1
            assert {answer.status for answer in answers} == {200}
            assert len({answer.body for answer in answers}) == 1
            seen = verdicts(answers)
            assert seen["MISS"] == 1
            assert set(seen) <= {"MISS", "COLLAPSED", "HIT"}
            if script.head_delay_seconds:
                assert seen["COLLAPSED"] > 100
    return 1_200


async def share_shapes(gateway: Workers, upstream: FakeUpstream) -> int:
    """Check that a worker's JSON follows another's stream; return how many were sent."""
    one, other = await gateway.pair()
    go_on = asyncio.Event()
    upstream.scripts["mixed"] = Script(resume=go_on)
    with gateway.only(one):
        leading = asyncio.create_task(gateway.ask("q", model="mixed", **STREAM))
        while calls(upstream, "mixed") == 0:
            await upstream.wait_for_calls(upstream.call_count + 1)
    with gateway.only(other):
        following = asyncio.create_task(gateway.ask("q", model="mixed"))
        await gateway.ask("barrier")
        await gateway.ask("barrier")
    go_on.set()
    leader, follower = await leading, await following
    assert calls(upstream, "mixed") == 1
    assert verdicts([leader, follower]) == {"MISS": 1, "COLLAPSED": 1}
    assert follower.headers["content-type"] == "application/json"
    assert b"echo: q" in follower.body
    assert leader.body.endswith(b"[DONE]\n\n")
    return 4


async def share_entries(gateway: Workers, upstream: FakeUpstream) -> int:
    """Check entries, invalidations and sources over both workers; return how many were sent."""
    one, other = await gateway.pair()
    tags = {"metadata": {"stepwell_tags": "t", "stepwell_sources": "faq=v1"}}

    async def at(worker: int, **fields: Any) -> str:
        with gateway.only(worker):
            answer = await gateway.ask("shared", model="shared", **fields)
            # Counting waits for what is still to be written: a worker must not be stopped with
            # the key's lock in its hands.
            await gateway.post({"tag": "t"}, path="/admin/invalidate", key=None)
        return str(answer.headers["x-cache"])

    async def post(worker: int, path: str, **body: Any) -> None:
        with gateway.only(worker):
            assert (await gateway.post(body, path=path, key=None)).status == 200

    seen = [await at(one, **tags), await at(other, **tags)]
    await post(one, "/admin/invalidate", tag="t", dry_run=False)
    seen += [await at(other, **tags), await at(one, **tags)]
    await post(other, "/admin/sources", name="faq", value="v2")
    seen += [await at(one), await at(other)]
    assert seen == ["MISS", "HIT", "MISS", "HIT", "MISS", "HIT"]
    assert calls(upstream, "shared") == 3
    return 6


async def test_two_workers_are_one_gateway(upstream: FakeUpstream, tmp_path: Path) -> None:
    """They share calls and entries; what one is told to forget, both forget; each counts once."""
    async with running(upstream, tmp_path) as gateway:
        sent = await share_calls(gateway, upstream)
        sent += await share_shapes(gateway, upstream)
        sent += await share_entries(gateway, upstream)
        page = await gateway.metrics(until=lambda page: total(page) >= sent)
        assert total(page) == sent
        assert "stepwell_workers 2.0" in page


async def test_a_killed_worker_takes_only_its_own_clients_along(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Those who followed it from the other worker have their answer, for one more call."""
    upstream.scripts["held"] = Script(hold=asyncio.Event())
    async with running(upstream, tmp_path) as gateway:
        doomed, other = await gateway.pair()
        with gateway.only(doomed):
            leader = asyncio.create_task(gateway.ask("q", model="held"))
            await upstream.wait_for_calls(1)
        with gateway.only(other):
            followers = [asyncio.create_task(gateway.ask("q", model="held")) for _ in range(20)]
            await gateway.ask("barrier")
            await gateway.ask("barrier")
            assert calls(upstream, "held") == 1
            upstream.scripts["held"] = Script()
            os.kill(doomed, signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await leader
            answers = [await follower for follower in followers]
        assert {answer.status for answer in answers} == {200}
        assert calls(upstream, "held") == 2

        pair = await gateway.pair()
        assert doomed not in pair
        page = await gateway.metrics(until=lambda page: "stepwell_workers 2.0" in page)
        assert "stepwell_workers 2.0" in page
        with gateway.only(next(worker for worker in pair if worker != other)):
            assert (await gateway.ask("q", model="held")).headers["x-cache"] == "HIT"


async def test_the_last_client_of_all_workers_stops_the_model_server(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """A call goes on for a client of the other worker, and ends when that one leaves too."""
    upstream.scripts["held"] = Script(hold=asyncio.Event())
    body = question("q", model="held")
    async with running(upstream, tmp_path) as gateway:
        one, other = await gateway.pair()
        with gateway.only(one):
            leader = asyncio.create_task(gateway.post(body))
            await upstream.wait_for_calls(1)
        with gateway.only(other):
            follower = asyncio.create_task(gateway.post(body))
            await gateway.ask("barrier")
            await gateway.ask("barrier")
        received = upstream.calls[0]
        leader.cancel()
        await gateway.ask("barrier", cache={"no-cache": True})
        assert not received.abandoned.is_set()
        follower.cancel()
        async with asyncio.timeout(5):
            await received.abandoned.wait()
        assert calls(upstream, "held") == 1
