"""An embedder that needs no model: texts are as near as they share words."""

import re
import zlib
from collections.abc import Sequence

import numpy as np

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Embeddings, Unfit

DIMENSIONS = 256
_WORD = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]")


class WordVectors:
    """An `Embedder` by the words of a text, or Chinese characters, each with a place of its own."""

    def __init__(self, model_id: str = "words", window_words: int = 10_000) -> None:
        self.model_id = model_id
        self.dimensions = DIMENSIONS
        self.window_words = window_words
        self.embedded: list[str] = []
        """All texts so far."""
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return vectors; of texts without a word none."""
        if self.fails:
            raise EmbeddingError("told to fail")
        self.embedded += texts
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        return Embeddings(vectors, tuple(map(self._fill, texts, vectors)))

    async def aclose(self) -> None:
        """Do nothing."""

    def _fill(self, text: str, row: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Unfit | None:
        words = _WORD.findall(text.lower())
        if not words:
            return Unfit.EMPTY
        if len(words) > self.window_words:
            return Unfit.OVER_WINDOW
        for word in words:
            row[zlib.crc32(word.encode()) % DIMENSIONS] += 1.0
        row /= np.linalg.norm(row)
        return None
