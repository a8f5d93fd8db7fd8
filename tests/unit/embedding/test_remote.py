"""The client of the host's embedder, against embedders of every kind of ill will."""

import asyncio
import gc
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from stepwell.core.errors import EmbeddingError, EmbeddingTimeout
from stepwell.core.vectors import Unfit
from stepwell.embedding import remote
from stepwell.embedding.frames import (
    MAX_FRAME_BYTES,
    Ask,
    Compare,
    Compared,
    Computed,
    Failed,
    Frames,
    Hello,
    Idle,
    Refused,
    frame,
    question,
)
from stepwell.embedding.recipes import Facts
from stepwell.embedding.remote import RemoteEmbedder

FACTS = Facts("model@1", dimensions=2, window_tokens=8)
GOOD = np.array([0.6, 0.8], "<f4").tobytes()

React = Callable[[Ask | Compare, asyncio.StreamWriter], Awaitable[None] | None]


def good(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
    writer.write(frame(Computed(ask.number, GOOD)))


def silent(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
    pass


class FakeProcess:
    """Listens on a socket and answers as ``react`` says."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.react: React = good
        self.hello = frame(Hello(FACTS.model_id))
        self.asked: list[str] = []
        self.connections = 0
        self._arrival = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        """End as a process does that is killed."""
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            await self._server.wait_closed()
        self._forget()

    def _forget(self) -> None:
        Path(self.path).unlink()

    async def until_asked(self) -> None:
        async with self._arrival:
            await self._arrival.wait_for(lambda: bool(self.asked))

    async def until_connected(self) -> None:
        async with self._arrival:
            await self._arrival.wait_for(lambda: self.connections > 0)

    async def _arrived(self) -> None:
        async with self._arrival:
            self._arrival.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        writer.write(self.hello)
        await self._arrived()
        frames = Frames()
        try:
            while data := await reader.read(4096):
                for body in frames.feed(data):
                    await self._take(body, writer)
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _take(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        ask = question(body)
        assert isinstance(ask, Ask | Compare)
        self.asked.append(ask.text if isinstance(ask, Ask) else f"{ask.one}|{ask.other}")
        await self._arrived()
        reaction = self.react(ask, writer)
        if reaction is not None:
            await reaction


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[FakeProcess]:
    fake = FakeProcess(tmp_path / "embedder")
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def embedder(process: FakeProcess) -> AsyncIterator[RemoteEmbedder]:
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    yield client
    await client.aclose()


async def test_vectors_arrive(process: FakeProcess, embedder: RemoteEmbedder) -> None:
    got = await embedder.embed(["a", "", "b", "a"])
    np.testing.assert_allclose(got.vectors, [[0.6, 0.8], [0.0, 0.0], [0.6, 0.8], [0.6, 0.8]])
    assert got.unfit == (None, Unfit.EMPTY, None, None)
    assert process.asked == ["a", "b"]
    assert process.connections == 1


async def test_answers_may_come_in_any_order(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    held: list[Ask | Compare] = []

    def react(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
        held.append(ask)
        if len(held) == 2:
            writer.write(frame(Refused(held[1].number, Unfit.UNKNOWN_TOKENS)))
            writer.write(frame(Computed(held[0].number, GOOD)))

    process.react = react
    got = await embedder.embed(["a", "b"])
    assert got.unfit == (None, Unfit.UNKNOWN_TOKENS)


async def test_a_text_no_encoding_has_is_asked_without_what_it_cannot_write(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    await embedder.embed(["a\ud800"])
    assert process.asked == ["a\ufffd"]


async def test_a_huge_text_is_not_sent(process: FakeProcess, embedder: RemoteEmbedder) -> None:
    got = await embedder.embed(["x" * 100_000])
    assert got.unfit == (Unfit.OVER_WINDOW,)
    assert process.asked == []


def sending(make: Callable[[int], bytes]) -> React:
    def react(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
        writer.write(make(ask.number))

    return react


def dying(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def torn(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
    writer.write(frame(Computed(ask.number, GOOD))[:-3])
    writer.close()


def vector(*numbers: float) -> Callable[[int], bytes]:
    return lambda number: frame(Computed(number, np.array(numbers, "<f4").tobytes()))


HOSTILE = {
    "not a number": sending(vector(np.nan, 0)),
    "infinite": sending(vector(np.inf, 0)),
    "zero": sending(vector(0, 0)),
    "not of unit length": sending(vector(3, 4)),
    "too wide": sending(vector(0.6, 0.8, 0)),
    "too narrow": sending(vector(1)),
    "no bytes": sending(lambda number: frame(Computed(number, b""))),
    "odd bytes": sending(lambda number: frame(Computed(number, b"123"))),
    "failed": sending(lambda number: frame(Failed(number, "voll"))),
    "idle instead": sending(lambda number: frame(Idle(number))),
    "another model": sending(lambda number: frame(Hello("model@2"))),
    "garbage": sending(lambda number: b"\3\0\0\0abc"),
    "http": sending(lambda number: b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "endless frame": sending(lambda number: struct.pack("<I", MAX_FRAME_BYTES + 1)),
    "dies": dying,
    "torn frame": torn,
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_whatever_it_does_is_an_error_and_then_over(
    process: FakeProcess, embedder: RemoteEmbedder, kind: str
) -> None:
    process.react = HOSTILE[kind]
    with pytest.raises(EmbeddingError) as caught:
        await embedder.embed(["a", "b"])
    assert not isinstance(caught.value, EmbeddingTimeout)
    process.react = good
    got = await embedder.embed(["a", "b"])
    np.testing.assert_allclose(got.vectors, [[0.6, 0.8], [0.6, 0.8]])


async def test_an_answer_nobody_asked_for_is_dropped(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    process.react = sending(
        lambda number: frame(Computed(number + 77, GOOD)) + frame(Computed(number, GOOD)) * 2
    )
    await embedder.embed(["a"])
    await embedder.embed(["b"])


async def test_a_hang_costs_the_budget_and_the_answer_is_kept_when_it_comes(
    process: FakeProcess,
) -> None:
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=0.02)
    released = asyncio.Event()

    async def late(ask: Ask | Compare, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        good(ask, writer)

    process.react = late
    with pytest.raises(EmbeddingTimeout):
        await client.embed(["a"])
    released.set()
    while True:
        try:
            await client.embed(["a"])
        except EmbeddingTimeout:
            continue
        break
    assert process.asked == ["a"]
    await client.aclose()


async def test_a_stalled_process_is_not_waited_for(
    process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is left once nothing can be hoped for; the next one is asked again."""
    monkeypatch.setattr(remote, "STALLED_SECONDS", 0.0)
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=0.02)
    process.react = silent
    with pytest.raises(EmbeddingTimeout):
        await client.embed(["a"])
    with pytest.raises(EmbeddingError, match="stalled"):
        await client.embed(["b"])
    assert process.asked == ["a"]
    monkeypatch.setattr(remote, "GIVEN_UP_SECONDS", 0.0)
    with pytest.raises(EmbeddingError, match="stalled"):
        await client.embed(["b"])
    monkeypatch.undo()
    process.react = good
    await asyncio.sleep(0)
    await client.embed(["b"])
    assert process.connections == 2
    await client.aclose()


async def test_while_there_is_no_process_texts_fail_at_once(tmp_path: Path) -> None:
    process = FakeProcess(tmp_path / "embedder")
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    for _ in range(20):
        with pytest.raises(EmbeddingError, match="not there"):
            await client.embed(["a"])
    await process.start()
    while True:  # until the pause before the next attempt is over
        try:
            await client.embed(["a"])
        except EmbeddingError:
            await asyncio.sleep(0.01)
            continue
        break
    await client.aclose()
    await process.stop()


async def test_a_process_that_never_says_hello(
    process: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "DIAL_TIMEOUT_SECONDS", 0.02)
    process.hello = b""
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    with pytest.raises(EmbeddingError, match="not there"):
        await client.embed(["a"])
    await client.aclose()


async def test_a_process_of_another_model_is_not_asked(process: FakeProcess) -> None:
    process.hello = frame(Hello("model@2"))
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    with pytest.raises(EmbeddingError, match=r"model@2 answers instead of model@1"):
        await client.embed(["a"])
    assert process.asked == []
    await client.aclose()


async def test_a_process_that_comes_back_is_found_again(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    await embedder.embed(["a"])
    await process.stop()
    with pytest.raises(EmbeddingError):
        await embedder.embed(["b"])
    await process.start()
    while True:
        try:
            await embedder.embed(["b"])
        except EmbeddingError:
            await asyncio.sleep(0.01)
            continue
        break


async def test_closing_ends_what_waits_and_what_comes(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    process.react = silent
    waiting = asyncio.create_task(embedder.embed(["a"]))
    await process.until_asked()
    await embedder.aclose()
    with pytest.raises(EmbeddingError):
        await waiting
    with pytest.raises(EmbeddingError, match="closed"):
        await embedder.embed(["b"])
    await embedder.aclose()


async def test_closing_while_it_connects(process: FakeProcess) -> None:
    process.hello = b""
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    waiting = asyncio.create_task(client.embed(["a"]))
    await process.until_connected()
    await client.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await waiting


async def test_a_hundred_tasks_share_one_computation(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    await asyncio.gather(*(embedder.embed(["a"]) for _ in range(100)))
    assert process.asked == ["a"]


@pytest.mark.parametrize(("said", "score"), [(0.0, 0.0), (1.0, 1.0), (None, None)])
async def test_a_score_arrives(
    process: FakeProcess, embedder: RemoteEmbedder, said: float | None, score: float | None
) -> None:
    process.react = lambda ask, writer: writer.write(frame(Compared(ask.number, said)))
    assert await embedder.score("b", "a") == score
    assert process.asked == ["a|b"]


@pytest.mark.parametrize("said", [float("nan"), -0.1, 1.1])
async def test_a_score_that_is_none(
    process: FakeProcess, embedder: RemoteEmbedder, said: float
) -> None:
    process.react = lambda ask, writer: writer.write(frame(Compared(ask.number, said)))
    with pytest.raises(EmbeddingError, match="not from 0 to 1"):
        await embedder.score("a", "b")


async def test_a_vector_is_no_score(process: FakeProcess, embedder: RemoteEmbedder) -> None:
    process.react = good
    with pytest.raises(EmbeddingError, match="answered Computed"):
        await embedder.score("a", "b")


async def test_a_score_that_is_late(process: FakeProcess) -> None:
    """Its wait ends with the budget; whoever asks next finds the comparison under way."""
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=0.2)
    asks: list[tuple[Ask | Compare, asyncio.StreamWriter]] = []
    process.react = lambda ask, writer: asks.append((ask, writer))
    with pytest.raises(EmbeddingTimeout):
        await client.score("a", "b")
    again = asyncio.create_task(client.score("a", "b"))
    ask, writer = asks[0]
    writer.write(frame(Compared(ask.number, 0.5)))
    assert await again == 0.5
    assert process.asked == ["a|b"]
    await client.aclose()


async def test_what_no_frame_takes_is_not_sent(
    process: FakeProcess, embedder: RemoteEmbedder
) -> None:
    """However it is made of blanks; what others have asked meanwhile is not harmed."""
    blanks = "a" + " " * 1_200_000 + "b"
    others = asyncio.create_task(embedder.embed(["a"]))
    assert (await embedder.embed([blanks])).unfit == (Unfit.OVER_WINDOW,)
    assert await embedder.score(blanks, "a") is None
    assert await embedder.score("a", "") is None
    await others
    assert process.asked == ["a"]


async def test_closing_while_it_is_not_greeted(process: FakeProcess) -> None:
    """Nobody is left to hear that the connection broke."""
    process.hello = b""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    client = RemoteEmbedder(process.path, FACTS, budget_seconds=5)
    asked = asyncio.create_task(client.embed(["a"]))
    await process.until_connected()
    await client.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await asked
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
