"""The serving side, with a model that does as it is told."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.embedding.encoder import Row
from stepwell.embedding.frames import Ask, Hello, frame
from stepwell.embedding.probe import computes
from stepwell.embedding.recipes import Facts
from stepwell.embedding.remote import RemoteEmbedder
from stepwell.embedding.service import Connection, Desk

FACTS = Facts("model@1", dimensions=2, window_tokens=8)


class FakeEncoder:
    """Computes when it may."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.may_go.set()
        self.computed: list[str] = []

    def encode(self, text: str) -> Row:
        self.may_go.wait(10)
        self.computed.append(text)
        if text == "boom":
            raise RuntimeError("no memory")
        if text == "odd":
            return Unfit.UNKNOWN_TOKENS
        return np.array([0.6, 0.8], np.float32)


class FakeScorer:
    """Knows how alike ``a`` and ``b`` are; of other texts it cannot tell."""

    def __init__(self) -> None:
        self.compared: list[tuple[str, str]] = []

    def score(self, one: str, other: str) -> float | None:
        self.compared.append((one, other))
        if "boom" in (one, other):
            raise RuntimeError("no memory")
        return 0.75 if (one, other) == ("a", "b") else None


@dataclass
class Serving:
    encoder: FakeEncoder
    scorer: FakeScorer
    path: str

    def client(self) -> RemoteEmbedder:
        return RemoteEmbedder(self.path, FACTS, budget_seconds=5, recent_texts=0)


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    encoder, scorer, path = FakeEncoder(), FakeScorer(), str(tmp_path / "embedder")
    desk = Desk(encoder, threads=1, queue=3, scorer=scorer)
    server = await asyncio.get_running_loop().create_unix_server(
        partial(Connection, desk, Hello("model@1")), path
    )
    yield Serving(encoder, scorer, path)
    encoder.may_go.set()
    server.close()


async def test_two_workers_share_a_computation(serving: Serving) -> None:
    one, two = serving.client(), serving.client()
    serving.encoder.may_go.clear()
    asked = [asyncio.create_task(client.embed(["a", "b"])) for client in (one, two)]
    await asyncio.sleep(0.05)
    serving.encoder.may_go.set()
    for task in asked:
        np.testing.assert_allclose((await task).vectors, [[0.6, 0.8], [0.6, 0.8]])
    assert sorted(serving.encoder.computed) == ["a", "b"]
    await one.aclose()
    await two.aclose()


async def test_what_the_model_finds_unfit(serving: Serving) -> None:
    client = serving.client()
    assert (await client.embed(["odd", "a"])).unfit == (Unfit.UNKNOWN_TOKENS, None)
    await client.aclose()


async def test_a_model_that_fails_fails_that_text_only(serving: Serving) -> None:
    client = serving.client()
    with pytest.raises(EmbeddingError, match="RuntimeError: no memory"):
        await client.embed(["boom"])
    await client.embed(["a"])
    await client.aclose()


async def test_beyond_the_queue_texts_fail_at_once(serving: Serving) -> None:
    client = serving.client()
    serving.encoder.may_go.clear()
    asked = asyncio.create_task(client.embed(["a", "b", "c"]))
    await asyncio.sleep(0)  # it asks first
    with pytest.raises(EmbeddingError, match="3 texts are waiting already"):
        await client.embed(["d"])
    serving.encoder.may_go.set()
    await asked
    await client.embed(["d"])
    await client.aclose()


async def test_pairs_are_compared_once(serving: Serving) -> None:
    """In either order, for whoever asks, and not again for one of the last."""
    one, two = serving.client(), serving.client()
    serving.encoder.may_go.clear()
    embedding = asyncio.create_task(one.embed(["a"]))
    await asyncio.sleep(0.05)
    asked = [one.score("a", "b"), one.score("b", "a"), two.score("b", "a")]
    comparing = [asyncio.create_task(ask) for ask in asked]
    await asyncio.sleep(0.05)
    serving.encoder.may_go.set()
    assert await asyncio.gather(*comparing) == [0.75] * 3
    assert await one.score("a", "b") == 0.75
    assert serving.scorer.compared == [("a", "b")]
    assert await one.score("a", "c") is None
    await embedding
    await one.aclose()
    await two.aclose()


async def test_a_comparison_that_fails(serving: Serving) -> None:
    client = serving.client()
    with pytest.raises(EmbeddingError, match="RuntimeError: no memory"):
        await client.score("a", "boom")
    assert await client.score("a", "b") == 0.75
    await client.aclose()


async def test_pairs_wait_in_the_same_queue(serving: Serving) -> None:
    client = serving.client()
    serving.encoder.may_go.clear()
    asked = asyncio.create_task(client.embed(["x", "y", "z"]))
    await asyncio.sleep(0)  # it asks first
    with pytest.raises(EmbeddingError, match="3 texts are waiting already"):
        await client.score("a", "b")
    serving.encoder.may_go.set()
    await asked
    await client.aclose()


async def test_an_embedder_that_cannot_compare_says_so(tmp_path: Path) -> None:
    desk, path = Desk(FakeEncoder(), threads=1, queue=3), str(tmp_path / "embedder")
    server = await asyncio.get_running_loop().create_unix_server(
        partial(Connection, desk, Hello("model@1")), path
    )
    client = RemoteEmbedder(path, FACTS, budget_seconds=5)
    with pytest.raises(EmbeddingError, match="cannot compare"):
        await client.score("a", "b")
    await client.aclose()
    server.close()


async def test_a_client_that_leaves_does_not_disturb(serving: Serving) -> None:
    leaving, staying = serving.client(), serving.client()
    serving.encoder.may_go.clear()
    asked = asyncio.create_task(leaving.embed(["a"]))
    await asyncio.sleep(0.05)
    await leaving.aclose()
    with pytest.raises(EmbeddingError):
        await asked
    serving.encoder.may_go.set()
    await staying.embed(["a", "b"])
    await staying.aclose()


async def test_a_client_that_talks_nonsense_is_cut_off(serving: Serving) -> None:
    reader, writer = await asyncio.open_unix_connection(serving.path)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1_000)
    writer.close()
    client = serving.client()
    await client.embed(["a"])
    await client.aclose()


async def test_a_client_that_does_not_read_is_not_read_from(serving: Serving) -> None:
    """Its answers would pile up here. Others are served meanwhile."""
    _, writer = await asyncio.open_unix_connection(serving.path)
    transport = writer.transport
    transport.pause_reading()  # type: ignore[attr-defined]
    asking = frame(Ask(1, "a")) * 1_000
    for _ in range(1_000):
        writer.write(asking)
        try:
            async with asyncio.timeout(0.2):
                await writer.drain()
        except TimeoutError:
            break
    else:
        pytest.fail("it went on reading")
    client = serving.client()
    while True:
        try:
            await client.embed(["b"])
        except EmbeddingError:
            continue
        break
    await client.aclose()
    transport.abort()


async def test_a_probe_passes_a_full_queue_but_not_a_hung_thread(serving: Serving) -> None:
    assert await asyncio.to_thread(computes, serving.path, 5)
    client = serving.client()
    serving.encoder.may_go.clear()
    asked = asyncio.create_task(client.embed(["a", "b", "c"]))
    await asyncio.sleep(0.05)
    assert not await asyncio.to_thread(computes, serving.path, 0.05)
    serving.encoder.may_go.set()
    assert await asyncio.to_thread(computes, serving.path, 5)
    await asked
    await client.aclose()


def test_other_event_loops_will_do(tmp_path: Path) -> None:
    """uvloop's transports are of classes of their own."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        path = str(tmp_path / "embedder")
        desk = Desk(FakeEncoder(), threads=1, queue=3)
        server = await asyncio.get_running_loop().create_unix_server(
            partial(Connection, desk, Hello("model@1")), path
        )
        client = RemoteEmbedder(path, FACTS, budget_seconds=5)
        np.testing.assert_allclose((await client.embed(["a"])).vectors, [[0.6, 0.8]])
        await client.aclose()
        server.close()

    uvloop.run(main())


async def test_a_probe_of_nothing(tmp_path: Path) -> None:
    assert not computes(str(tmp_path / "none"), 1)
