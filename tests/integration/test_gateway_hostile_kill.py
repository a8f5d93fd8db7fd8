"""``kill -9`` of the command's processes under load: what was acknowledged is right afterwards."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from support.gateway import Answer, Gateway

from stepwell.testing.fake_upstream import FakeUpstream, Script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds workers through /proc")


@dataclass
class Command:
    """A running ``stepwell serve`` with two workers, in a process group of its own."""

    process: asyncio.subprocess.Process
    gateway: Gateway

    def workers(self) -> set[int]:
        """Return the worker processes that are there."""
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return {int(child) for child in children if b"spawn_main" in _command_line(child)}


def _command_line(process: str) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


@contextlib.asynccontextmanager
async def command(data: Path, upstream: FakeUpstream) -> AsyncIterator[Command]:
    """Start the command, wait until it is ready, and kill what is left of it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stepwell.cli.main", "serve", "--upstream", upstream.base_url),
        *("--port", "0", "--workers", "2", "--data", str(data)),
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    drain = None
    try:
        async with asyncio.timeout(30), aiohttp.ClientSession() as http:
            origin = None
            while origin is None:
                line = (await process.stderr.readline()).decode()
                assert line, "the command has ended"
                origin = re.search(r"http://127\.0\.0\.1:\d+", line)
            # Unread, the request log would fill the pipe and hold the workers up.
            drain = asyncio.create_task(_discard(process.stderr))
            running = Command(process, Gateway(origin[0], http))
            while await _is_down(running.gateway):  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.05)
            yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if drain is not None:
            await drain


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass


async def _is_down(gateway: Gateway) -> bool:
    try:
        return (await gateway.get("/readyz")).status != 200
    except aiohttp.ClientError:
        return True


async def load(gateway: Gateway, name: str, answers: dict[str, bytes]) -> None:
    """Ask one question after the other, and note what is answered, until nobody answers."""
    number = 0
    with contextlib.suppress(aiohttp.ClientError):
        while True:
            text = f"{name} asks {number}"
            answer = await gateway.ask(text)
            assert is_right(answer, text)
            answers[text] = answer.body
            number += 1


def is_right(answer: Answer, text: str) -> bool:
    return answer.status == 200 and f'echo: {text}"'.encode() in answer.body


async def test_all_killed_under_load(tmp_path: Path, upstream: FakeUpstream) -> None:
    """Twice. It starts again, and serves what was acknowledged, or asks again; never otherwise."""
    answers: dict[str, bytes] = {}
    for life in ("first", "second"):
        known = dict(answers)
        async with command(tmp_path / "data", upstream) as running:
            served = {text: await running.gateway.ask(text) for text in known}
            assert all(is_right(answer, text) for text, answer in served.items())
            hits = [text for text, answer in served.items() if answer.headers["x-cache"] == "HIT"]
            assert all(served[text].body == known[text] for text in hits)
            assert bool(hits) == bool(known)
            clients = [
                asyncio.create_task(load(running.gateway, f"{life} {number}", answers))
                for number in range(8)
            ]
            await upstream.wait_for_calls(upstream.call_count + 200)
            os.killpg(running.process.pid, signal.SIGKILL)
            await asyncio.gather(*clients)
        assert len(answers) > len(known) + 100
    async with command(tmp_path / "data", upstream) as running:
        for text, body in answers.items():
            answer = await running.gateway.ask(text)
            assert is_right(answer, text)
            assert answer.headers["x-cache"] == "MISS" or answer.body == body


def sockets_of(process: int) -> int:
    """Return how many sockets a process has open."""
    count = 0
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += str(descriptor.readlink()).startswith("socket:")
    return count


async def open_when_idle(processes: Collection[int]) -> dict[int, int]:
    """Return how many sockets each process has open, once none opens any more."""
    seen: list[dict[int, int]] = []
    while len(seen) < 6 or any(counts != seen[-1] for counts in seen[-6:]):
        await asyncio.sleep(0.1)
        seen.append({process: sockets_of(process) for process in processes})
    return seen[-1]


async def test_one_worker_killed_in_the_middle_of_a_shared_call(
    tmp_path: Path, upstream: FakeUpstream
) -> None:
    """Its clients lose their connections; the others are answered, and a new worker comes."""
    async with command(tmp_path / "data", upstream) as running:
        before = running.workers()
        assert len(before) == 2
        hold = asyncio.Event()
        upstream.scripts["held"] = Script(hold=hold)
        idle = await open_when_idle(before)
        asking: list[asyncio.Task[Answer]] = []
        # One by one, because of a crowd one worker would take all; and until none has all.
        while len(asking) < 24 or any(sockets_of(worker) <= idle[worker] for worker in before):
            assert len(asking) < 500
            asking.append(asyncio.create_task(running.gateway.ask("hi", model="held")))
            await asyncio.sleep(0.01)
        await upstream.wait_for_calls(1)
        await asyncio.sleep(0.2)  # Until all of them wait for the one call.
        os.kill(min(before), signal.SIGKILL)
        hold.set()
        results = await asyncio.gather(*asking, return_exceptions=True)
        answered = [result for result in results if isinstance(result, Answer)]
        lost = [result for result in results if isinstance(result, aiohttp.ClientError)]
        assert len(answered) + len(lost) == len(asking)
        assert answered
        assert all(is_right(answer, "hi") for answer in answered)
        for _ in range(400):
            if len(running.workers() - {min(before)}) == 2:
                break
            await asyncio.sleep(0.05)
        assert len(running.workers() - {min(before)}) == 2
        assert is_right(await running.gateway.ask("hi", model="held"), "hi")


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    """Nothing starts that could keep nothing; it says which directory, and leaves at once."""
    taken = tmp_path / "data"
    taken.write_text("a file where a directory should be")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "stepwell.cli.main", "serve"),
            *("--upstream", "http://127.0.0.1:1/v1", "--port", "0", "--data", str(taken)),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode != 0
    assert str(taken) in ended.stderr
    assert "Traceback" not in ended.stderr
