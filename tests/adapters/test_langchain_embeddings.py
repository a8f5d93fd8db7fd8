"""LangChain's embeddings: its own conformance tests, and what they do not ask."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

import stepwell
from stepwell.adapters.langchain import StepwellEmbeddings
from stepwell.embedding.cache.canary import CANARY_TEXTS


class Counting(Embeddings):
    """Remembers what it was asked."""

    def __init__(self, size: int = 8) -> None:
        self._inner = DeterministicFakeEmbedding(size=size)
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.fails = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.fails:
            raise RuntimeError("told to fail")
        self.documents += [text for text in texts if text not in CANARY_TEXTS]
        return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        if text not in CANARY_TEXTS:
            self.queries.append(text)
        return self._inner.embed_query(f"query: {text}")


async def embed(texts: list[str]) -> list[list[float]]:
    return DeterministicFakeEmbedding(size=8).embed_documents(texts)


class _Params:
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return StepwellEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"documents": stepwell.EmbeddingCache(embed, model="fake")}


class TestUnit(_Params, EmbeddingsUnitTests):
    """As LangChain has it."""


class TestIntegration(_Params, EmbeddingsIntegrationTests):
    """As LangChain has it."""


@pytest.fixture
def underlying() -> Counting:
    return Counting()


@pytest.fixture
def embeddings(underlying: Counting, tmp_path: Path) -> Iterator[StepwellEmbeddings]:
    made = StepwellEmbeddings.over(underlying, model="fake", data_dir=tmp_path)
    yield made
    made.close()
    made.close()


async def test_each_text_is_embedded_once(
    embeddings: StepwellEmbeddings, underlying: Counting
) -> None:
    """Sync or async, twice in a batch or in two, in the caller's order."""
    first = embeddings.embed_documents(["a", "b", "a"])
    assert first[0] == first[2] != first[1]
    again = await embeddings.aembed_documents(["c", "b", "a"])
    assert again[1:] == [first[1], first[0]]
    assert sorted(underlying.documents) == ["a", "b", "c"]
    assert embeddings.embed_documents([]) == []


async def test_questions_are_no_passages(
    embeddings: StepwellEmbeddings, underlying: Counting
) -> None:
    """They are kept too, apart."""
    assert embeddings.embed_query("a") == await embeddings.aembed_query("a")
    assert embeddings.embed_documents(["a"]) != [embeddings.embed_query("a")]
    assert (underlying.queries, underlying.documents) == (["a"], ["a"])


def test_what_comes_first_is_what_comes_later(
    embeddings: StepwellEmbeddings, underlying: Counting
) -> None:
    """Numbers are rounded before they are given out, not only when they are kept."""
    [first] = embeddings.embed_documents(["a"])
    [later] = embeddings.embed_documents(["a"])
    assert first == later
    assert first == pytest.approx(underlying.embed_documents(["a"])[0], rel=1e-6)


def test_the_next_process_finds_them(underlying: Counting, tmp_path: Path) -> None:
    """Unless the model, or its revision, is another one; of another width, say."""
    for _ in range(2):
        one = StepwellEmbeddings.over(underlying, model="fake", data_dir=tmp_path)
        assert len(one.embed_documents(["a"])[0]) == 8
        one.close()
    assert underlying.documents == ["a"]
    for kind in ({"model": "other"}, {"model": "fake", "revision": "2"}):
        other = StepwellEmbeddings.over(Counting(4), data_dir=tmp_path, **kind)
        assert len(other.embed_documents(["a"])[0]) == 4
        other.close()


async def test_asked_at_once(embeddings: StepwellEmbeddings, underlying: Counting) -> None:
    """From threads and from an event loop."""
    with ThreadPoolExecutor(8) as pool:
        loop = asyncio.get_running_loop()
        blocking = [
            loop.run_in_executor(pool, embeddings.embed_documents, ["a"]) for _ in range(16)
        ]
        rows = await asyncio.gather(
            *blocking, *[embeddings.aembed_documents(["a"]) for _ in range(16)]
        )
    assert all(row == rows[0] for row in rows)
    assert underlying.documents == ["a"]


def test_a_failure_is_the_callers(embeddings: StepwellEmbeddings, underlying: Counting) -> None:
    """It is raised as it came, and nothing is kept of it."""
    underlying.fails = True
    with pytest.raises(RuntimeError, match="told to fail"):
        embeddings.embed_documents(["a"])
    underlying.fails = False
    assert len(embeddings.embed_documents(["a"])) == 1


def test_a_wrong_url_is_named(underlying: Counting) -> None:
    with pytest.raises(stepwell.ConfigError, match="redis"):
        StepwellEmbeddings.over(underlying, model="fake", redis="http://127.0.0.1")
