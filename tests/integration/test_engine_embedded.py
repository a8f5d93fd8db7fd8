"""The embedded engine for real: its process, and what a client sees of it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.embedded import SMALL, RunningEngine, needs_the_engine, running_engine

from stepwell.children.child import Child
from stepwell.core.errors import ConfigError, UpstreamError
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Upstream
from stepwell.engines.embedded import EmbeddedEngine, EngineBounds
from stepwell.engines.http import HttpUpstream
from stepwell.engines.llama_process import LlamaSettings
from stepwell.engines.slotted import SlottedUpstream

pytestmark = [pytest.mark.embedded, needs_the_engine]

PARENT = """
import sys
from pathlib import Path
from stepwell.engines.embedded import EmbeddedEngine
engine = EmbeddedEngine(data_dir=Path(sys.argv[1]), report=lambda line: None)
engine.start()
print(engine.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    with running_engine(tmp_path_factory.mktemp("data"), EngineBounds()) as started:
        yield started


def chat(text: str = "Say hi", **members: Any) -> Call:
    body = {
        "model": "smollm2-135m-instruct",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 4,
        "temperature": 0,
        **members,
    }
    return Call(Endpoint.CHAT, json.dumps(body).encode(), ())


async def ask(upstream: Upstream, call: Call) -> tuple[int, bytes]:
    reply = await upstream.send(call)
    try:
        return reply.status, b"".join([chunk async for chunk in reply.chunks()])
    finally:
        await reply.aclose()


def events_of(stream: bytes) -> list[dict[str, Any]]:
    lines = stream.decode().splitlines()
    texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    return [json.loads(text) for text in texts]


async def test_chat_answers_with_usage(running: RunningEngine) -> None:
    """A plain request gets an answer in OpenAI's shape, with the tokens it cost."""
    upstream = running.upstream()
    status, body = await ask(upstream, chat())
    await upstream.aclose()
    answer = json.loads(body)
    assert status == 200
    assert answer["model"] == running.address.model
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 4


async def test_stream_joins_to_the_whole_answer(running: RunningEngine) -> None:
    """The same request streamed gives the same text, and usage when asked for."""
    upstream = running.upstream()
    _, whole = await ask(upstream, chat())
    options = {"include_usage": True}
    _, stream = await ask(upstream, chat(stream=True, stream_options=options))
    await upstream.aclose()
    events = events_of(stream)
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    text = "".join(delta.get("content") or "" for delta in deltas)
    assert text == json.loads(whole)["choices"][0]["message"]["content"]
    assert events[-1]["usage"]["completion_tokens"] == 4
    assert stream.endswith(b"data: [DONE]\n\n")


async def test_repeated_prompt_is_cached(running: RunningEngine) -> None:
    """The engine computes a prompt once; the second time nearly all its tokens are reused."""
    upstream = SlottedUpstream(running.upstream(), running.address.slots)
    prompt = "The quick brown fox jumps over the lazy dog. " * 8
    await ask(upstream, chat(prompt))
    _, body = await ask(upstream, chat(prompt))
    await upstream.aclose()
    usage = json.loads(body)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


async def test_response_format_is_obeyed(running: RunningEngine) -> None:
    """A JSON schema binds even a small model: the answer parses and has the members."""
    upstream = running.upstream()
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["age"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    _, body = await ask(upstream, chat("How old?", max_tokens=40, response_format=wanted))
    await upstream.aclose()
    content = json.loads(json.loads(body)["choices"][0]["message"]["content"])
    assert list(content) == ["age"]


async def test_streams_in_a_row_survive_unannounced_closes(running: RunningEngine) -> None:
    """The engine closes its connection after each stream without saying so; no call notices."""
    upstream = running.upstream()
    statuses = [(await ask(upstream, chat(stream=True, max_tokens=1)))[0] for _ in range(10)]
    await upstream.aclose()
    assert statuses == [200] * 10


def test_idle_connections_do_not_shut_others_out(running: RunningEngine) -> None:
    """The engine serves a newcomer while many others keep connections that they do not use."""
    port = int(running.address.base_url.split(":")[2].split("/")[0])
    others = [ask_health(port) for _ in range(100)]
    for connection in others:
        read_health(connection)
    newcomer = ask_health(port)
    read_health(newcomer)
    ended = [connection for connection in others if has_ended(connection)]
    for connection in (*others, newcomer):
        connection.close()
    assert ended == []


def ask_health(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    return connection


def read_health(connection: socket.socket) -> None:
    received = b""
    while b'{"status":"ok"}' not in received:
        chunk = connection.recv(4096)
        assert chunk, "the engine closed a connection in place of an answer"
        received += chunk


def has_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)  # noqa: FBT003  (the socket module's own signature)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


async def test_wrong_key_is_refused(running: RunningEngine) -> None:
    """Another process of the machine cannot use the engine without its key."""
    upstream = running.upstream(api_key="guess")
    status, _ = await ask(upstream, chat())
    await upstream.aclose()
    assert status == 401


def test_key_is_on_no_command_line(running: RunningEngine) -> None:
    """What any user of the machine can list does not hold the key; neither do our reports."""
    command = Path(f"/proc/{running.engine.pid}/cmdline").read_bytes()
    told = "".join((repr(running.address), *running.reports))
    assert running.address.api_key.encode() not in command
    assert running.address.api_key not in told


def test_identity_is_the_same_for_another_start(running: RunningEngine, tmp_path: Path) -> None:
    """Answers stored by one process are the next one's: key and port change, identity not."""
    with running_engine(tmp_path) as other:
        assert other.address.identity == running.address.identity
        assert other.address.api_key != running.address.api_key


def started(data_dir: Path) -> RunningEngine:
    """Start an engine; stop it."""
    reports: list[str] = []
    engine = EmbeddedEngine(data_dir=data_dir, report=reports.append, bounds=SMALL)
    return RunningEngine(engine, engine.start(), reports)


async def test_killed_engine_comes_back_at_the_same_address(tmp_path: Path) -> None:
    """After a crash the engine serves again, with no worker told anything."""
    running = await asyncio.to_thread(started, tmp_path)
    upstream = running.upstream()
    first = running.engine.pid
    try:
        await ask(upstream, chat())
        assert first is not None
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):
            statuses = await statuses_until_answered(upstream)
    finally:
        await upstream.aclose()
        await asyncio.to_thread(running.engine.stop)
    assert set(statuses) <= {200, 503}
    assert any("exit code -9" in line for line in running.reports)


async def statuses_until_answered(upstream: HttpUpstream) -> list[int]:
    """Ask until the engine answers; return each status it gave. It says 503 while it loads."""
    statuses: list[int] = []
    while 200 not in statuses:
        try:
            statuses.append((await ask(upstream, chat()))[0])
        except UpstreamError:
            await asyncio.sleep(0.05)
    return statuses


async def test_stopped_engine_is_gone(tmp_path: Path) -> None:
    """After stopping no process is left, it does not come back, and stopping again is fine."""
    running = await asyncio.to_thread(started, tmp_path)
    pid = running.engine.pid
    assert pid is not None
    await asyncio.to_thread(running.engine.stop)
    await asyncio.to_thread(running.engine.stop)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_engine_dies_with_its_parent(tmp_path: Path) -> None:
    """A gateway that is killed outright leaves no engine behind."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        engine_pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while is_running(engine_pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(engine_pid)


def is_running(pid: int) -> bool:
    """Return whether the process lives; one that waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_unusable_weights_are_told(tmp_path: Path) -> None:
    """A child that cannot load the model ends, and what it said is kept for the operator."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    settings = LlamaSettings(
        weights=str(broken),
        model="m",
        api_key="key",
        port=0,
        threads=1,
        slots=1,
        context_tokens=256,
        answer_tokens=16,
        prompt_cache_mib=0,
    )
    child = Child("stepwell.engines.llama_process", msgspec.json.encode(settings))
    assert child.ready_line(60) == b""
    assert "Failed to init server" in child.wait()


def test_missing_engine_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra, starting tells the command that installs it."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    engine = EmbeddedEngine(data_dir=tmp_path, report=print)
    with pytest.raises(ConfigError, match=r"run `pip install '\.\[embedded\]'`"):
        engine.start()


def test_start_after_stop_is_refused(tmp_path: Path) -> None:
    """An engine that was stopped says so in place of hanging."""
    engine = EmbeddedEngine(data_dir=tmp_path, report=print)
    engine.stop()
    with pytest.raises(ConfigError, match="it was stopped"):
        engine.start()
