"""LlamaIndex's embeddings, by its public methods, which call ours in batches and on its loops.

LlamaIndex ships no conformance tests; what its own tests ask of an embedding is asked here.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr

import stepwell
from stepwell.adapters.llamaindex import StepwellEmbedding
from stepwell.embedding.cache.canary import CANARY_TEXTS

WORDS = DeterministicFakeEmbedding(size=8)


class Counting(BaseEmbedding):
    """Remembers what it was asked."""

    _documents: list[str] = PrivateAttr(default_factory=list)
    _queries: list[str] = PrivateAttr(default_factory=list)

    def _get_query_embedding(self, query: str) -> list[float]:
        if query not in CANARY_TEXTS:
            self._queries.append(query)
        return WORDS.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        if text not in CANARY_TEXTS:
            self._documents.append(text)
        return WORDS.embed_query(text)


@pytest.fixture
def underlying() -> Counting:
    return Counting(model_name="fake")


@pytest.fixture
def embedding(underlying: Counting, tmp_path: Path) -> Iterator[StepwellEmbedding]:
    made = StepwellEmbedding.over(underlying, data_dir=tmp_path)
    yield made
    made.close()
    made.close()


def test_it_is_an_embedding() -> None:
    """As each of LlamaIndex's integrations is tested."""
    assert BaseEmbedding in StepwellEmbedding.__mro__
    assert StepwellEmbedding.class_name() == "StepwellEmbedding"


async def test_every_way_of_asking(embedding: StepwellEmbedding, underlying: Counting) -> None:
    """One or many, sync or async, of passages: the same vectors, each embedded once."""
    texts = [f"text {number % 5}" for number in range(20)]
    batch = embedding.get_text_embedding_batch(texts)
    assert await embedding.aget_text_embedding_batch(texts) == batch
    assert await embedding.aget_text_embedding_batch(texts, show_progress=True) == batch
    assert [embedding.get_text_embedding(text) for text in texts] == batch
    assert [await embedding.aget_text_embedding(text) for text in texts] == batch
    assert batch[0] == pytest.approx(WORDS.embed_query("text 0"), rel=1e-6)
    assert sorted(underlying._documents) == sorted(set(texts))
    assert underlying._queries == []
    assert embedding.get_text_embedding_batch([]) == []


async def test_more_than_a_batch(embedding: StepwellEmbedding, underlying: Counting) -> None:
    embedding.embed_batch_size, embedding.num_workers = 7, 3
    texts = [f"text {number}" for number in range(30)]
    assert await embedding.aget_text_embedding_batch(texts) == [
        pytest.approx(row, rel=1e-6) for row in WORDS.embed_documents(texts)
    ]
    assert sorted(underlying._documents) == sorted(texts)


async def test_questions(embedding: StepwellEmbedding, underlying: Counting) -> None:
    assert embedding.get_query_embedding("q") == await embedding.aget_query_embedding("q")
    assert embedding.get_agg_embedding_from_queries(["q", "q"]) == pytest.approx(
        embedding.get_query_embedding("q")
    )
    assert (underlying._queries, underlying._documents) == (["q"], [])


def test_an_index(embedding: StepwellEmbedding, underlying: Counting) -> None:
    """Built twice, its nodes are embedded once; what is asked for is found."""
    nodes = [TextNode(text=f"passage {number}", id_=str(number)) for number in range(5)]
    for _ in range(2):
        index = VectorStoreIndex(nodes, embed_model=embedding)
        [found] = index.as_retriever(similarity_top_k=1).retrieve("passage 3")
        assert found.node.node_id == "3"
        assert found.score == pytest.approx(1.0, abs=1e-6)
    assert len(underlying._documents) == 5


async def test_an_ingestion_pipeline(embedding: StepwellEmbedding, underlying: Counting) -> None:
    """A changed node is embedded, and the others are not."""
    texts = [f"passage {number}" for number in range(5)]
    for changed in ("passage 4", "passage 4, changed"):
        nodes = [TextNode(text=text) for text in (*texts[:4], changed)]
        pipeline = IngestionPipeline(transformations=[embedding], disable_cache=True)
        done = await pipeline.arun(nodes=nodes)
        assert all(node.embedding is not None for node in done)
    assert sorted(underlying._documents) == [*texts, "passage 4, changed"]


def test_another_model_has_another_name(tmp_path: Path) -> None:
    """By which a pipeline's cache tells them apart; the next process has the same."""
    names = []
    for model, revision in (("a", ""), ("a", ""), ("a", "2"), ("b", "")):
        made = StepwellEmbedding.over(
            Counting(model_name=model), revision=revision, data_dir=tmp_path
        )
        names.append(made.to_dict()["model_name"])
        made.close()
    assert names[0] == names[1]
    assert len(set(names)) == 3


async def test_a_server_of_embeddings() -> None:
    """Two described caches, one with a prefix, in place of another embedding."""
    asked: list[str] = []

    async def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(text for text in texts if not text.endswith(CANARY_TEXTS))
        return WORDS.embed_documents(texts)

    def cache(**kind: Any) -> stepwell.EmbeddingCache:
        return stepwell.EmbeddingCache(embed, model="e5", **kind)

    made = StepwellEmbedding(cache(prefix="passage: "), cache(prefix="query: "))
    await asyncio.gather(made.aget_text_embedding("x"), made.aget_query_embedding("x"))
    assert sorted(asked) == ["passage: x", "query: x"]
    made.close()
    symmetric = StepwellEmbedding(cache())
    assert symmetric.get_text_embedding("x") == symmetric.get_query_embedding("x")
    symmetric.close()
