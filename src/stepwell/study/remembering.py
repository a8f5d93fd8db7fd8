"""An embedder that remembers: a text is embedded once, and with a file once for all runs."""

import asyncio
import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Embedder, Embeddings, Unfit, Vector

MAX_REMEMBERED = 20_000
"""Vectors in memory; 30 MB at 384 dimensions."""

TEXTS_A_CALL = 16
CALLS_IN_FLIGHT = 2
"""So that the embedder never waits for us. More only fills its queue."""

Embedded = Vector | Unfit | EmbeddingError
"""A text's vector, why it has none, or how the embedder failed."""


class VectorFile:
    """Vectors of one embedder on disk, by the SHA-256 of their texts: it holds no words."""

    def __init__(self, folder: Path, model_id: str, dimensions: int) -> None:
        """Open the file of an embedder in ``folder``; both are made if they are not there.

        Raises:
            ConfigError: It cannot be used.
        """
        name = hashlib.sha256(f"{model_id}\n{dimensions}".encode()).hexdigest()[:16]
        self._path = folder / f"vectors-{name}.sqlite"
        self._bytes = 4 * dimensions
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, isolation_level=None)
            # A lost last moment costs its vectors and nothing else.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS vectors"
                " (text BLOB PRIMARY KEY, unfit TEXT, vector BLOB) WITHOUT ROWID"
            )
        except OSError as error:
            raise ConfigError(f"--cache {folder} cannot be used: {error.strerror}.") from error
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def get(self, texts: Iterable[str]) -> dict[str, Vector | Unfit]:
        """Return what is known of ``texts``."""
        known: dict[str, Vector | Unfit] = {}
        try:
            for text in texts:
                row = self._database.execute(
                    "SELECT unfit, vector FROM vectors WHERE text = ?", (_digest(text),)
                ).fetchone()
                if row is not None and (found := self._read(*row)) is not None:
                    known[text] = found
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return known

    def put(self, embedded: dict[str, Vector | Unfit]) -> None:
        """Keep what was found out."""
        rows = [
            (_digest(text), found.value, b"")
            if isinstance(found, Unfit)
            else (_digest(text), None, found.astype("<f4").tobytes())
            for text, found in embedded.items()
        ]
        try:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _read(self, unfit: str | None, vector: bytes) -> Vector | Unfit | None:
        if unfit is not None:
            return Unfit(unfit) if unfit in set(Unfit) else None
        if len(vector) != self._bytes:
            return None
        return np.frombuffer(vector, "<f4").astype(np.float32)

    def _unusable(self, error: sqlite3.Error) -> ConfigError:
        return ConfigError(f"--cache: {self._path} cannot be used ({error}). Remove it to go on.")


class RememberingEmbedder:
    """Embeds through another embedder what it does not know. One event loop; not thread-safe."""

    def __init__(self, embedder: Embedder, file: VectorFile | None = None) -> None:
        """Know nothing but what is in ``file``."""
        self._embedder = embedder
        self._file = file
        self._known: OrderedDict[str, Vector | Unfit] = OrderedDict()
        self._free = asyncio.Semaphore(CALLS_IN_FLIGHT)
        self.embedded = 0
        """Texts that the embedder was asked for."""
        self.failed = 0
        """Of those, how many it failed at."""
        self.failure: EmbeddingError | None = None
        """How it failed first."""
        self._has_vectors = False

    @property
    def model_id(self) -> str:
        """As the embedder's."""
        return self._embedder.model_id

    @property
    def dimensions(self) -> int:
        """As the embedder's."""
        return self._embedder.dimensions

    async def all_of(self, texts: Iterable[str]) -> dict[str, Embedded]:
        """Return what each of ``texts`` is embedded as; each is asked for once, a few at a time.

        Raises:
            EmbeddingError: The embedder has failed at every text so far: there is none.
        """
        wanted = dict.fromkeys(texts)
        found: dict[str, Embedded] = {
            text: self._recalled(text) for text in wanted if text in self._known
        }
        missing = [text for text in wanted if text not in found]
        if self._file is not None and missing:
            on_disk = self._file.get(missing)
            self._remember(on_disk)
            found.update(on_disk)
            missing = [text for text in missing if text not in on_disk]
        parts = [
            missing[start : start + TEXTS_A_CALL] for start in range(0, len(missing), TEXTS_A_CALL)
        ]
        for part in await asyncio.gather(*map(self._ask, parts)):
            found.update(part)
        if self.failure is not None and not self._has_vectors:
            raise EmbeddingError(f"nothing can be embedded: {self.failure}") from self.failure
        return found

    def close(self) -> None:
        """Close the file. The embedder stays open: whoever opened it closes it."""
        if self._file is not None:
            self._file.close()

    async def _ask(self, texts: Sequence[str]) -> dict[str, Embedded]:
        async with self._free:
            self.embedded += len(texts)
            if self.failure is not None and self._is_hopeless():
                return {text: self._note(self.failure) for text in texts}
            try:
                embeddings = await self._embedder.embed(texts)
            except EmbeddingError as error:
                if len(texts) > 1:
                    # One of them may be at fault, and the others are not.
                    return await self._one_by_one(texts)
                return {texts[0]: self._note(error)}
        return dict(self._keep(_taken_apart(texts, embeddings)))

    async def _one_by_one(self, texts: Sequence[str]) -> dict[str, Embedded]:
        found: dict[str, Embedded] = {}
        for text in texts:
            if self.failure is not None and self._is_hopeless():
                found[text] = self._note(self.failure)
                continue
            try:
                fresh = _taken_apart([text], await self._embedder.embed([text]))
            except EmbeddingError as error:
                found[text] = self._note(error)
                continue
            found.update(self._keep(fresh))
        return found

    def _note(self, error: EmbeddingError) -> EmbeddingError:
        """Count a failure."""
        self.failed += 1
        self.failure = self.failure or error
        return error

    def _is_hopeless(self) -> bool:
        """Return whether so much failed before anything went well that nobody need be asked."""
        return self.failed >= TEXTS_A_CALL and not self._has_vectors

    def _keep(self, fresh: dict[str, Vector | Unfit]) -> dict[str, Vector | Unfit]:
        self._remember(fresh)
        if self._file is not None:
            self._file.put(fresh)
        return fresh

    def _recalled(self, text: str) -> Vector | Unfit:
        self._known.move_to_end(text)
        return self._known[text]

    def _remember(self, fresh: dict[str, Vector | Unfit]) -> None:
        self._known.update(fresh)
        self._has_vectors |= not all(isinstance(found, Unfit) for found in fresh.values())
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)


def _taken_apart(texts: Sequence[str], embeddings: Embeddings) -> dict[str, Vector | Unfit]:
    return {
        # A copy: the row would keep the whole call's vectors alive.
        text: embeddings.vectors[row].copy() if unfit is None else unfit
        for row, (text, unfit) in enumerate(zip(texts, embeddings.unfit, strict=True))
    }


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
