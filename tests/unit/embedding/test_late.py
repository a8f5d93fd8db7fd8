"""An embedder that opens at the first text."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Embeddings
from stepwell.embedding.late import LateEmbedder
from stepwell.embedding.recipes import Facts

FACTS = Facts("model@1", 2, 256)


class Opened:
    model_id, dimensions = FACTS.model_id, FACTS.dimensions
    closed = 0

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        return Embeddings(np.ones((len(texts), 2), np.float32), (None,) * len(texts))

    async def aclose(self) -> None:
        self.closed += 1


async def test_it_opens_once_and_closes() -> None:
    opened: list[Opened] = []

    def open_embedder() -> Opened:
        opened.append(Opened())
        return opened[-1]

    embedder = LateEmbedder(FACTS, open_embedder)
    assert (embedder.model_id, embedder.dimensions, opened) == ("model@1", 2, [])
    made = await asyncio.gather(embedder.embed(["a"]), embedder.embed(["b", "c"]))
    assert [len(one.vectors) for one in made] == [1, 2]
    await embedder.aclose()
    await embedder.aclose()
    assert [one.closed for one in opened] == [1]


async def test_one_that_was_never_asked_is_never_opened() -> None:
    await LateEmbedder(FACTS, Opened).aclose()


@pytest.mark.parametrize("error", [ConfigError("no weights"), OSError("no weights")])
async def test_one_that_cannot_be_opened(error: Exception) -> None:
    def fail() -> Opened:
        raise error

    embedder = LateEmbedder(FACTS, fail)
    with pytest.raises(EmbeddingError, match="no weights"):
        await embedder.embed(["a"])
    await embedder.aclose()
