"""Keeping a collection in step with a source.

Documents are compared by digests. What is new or has another text is cut; chunks that the
collection lacks are embedded, outside of any transaction; then each document is put in by one
transaction, if it still is what it was when it was looked at. What is not in the source any more
is taken out last. So a run can end anywhere: what it has put in is right, and the next run does
what is left. No times are compared.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress

from stepwell.core.clock import Clock
from stepwell.core.documents import (
    CollectionState,
    DocumentState,
    Edition,
    Library,
    Recipe,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import ConfigError, StoreError
from stepwell.embedding.documents.comparing import Compared, compare, cut_document
from stepwell.embedding.documents.cutting import Bounds
from stepwell.embedding.documents.forgetting import forget_unused
from stepwell.embedding.documents.putting import Putting
from stepwell.embedding.documents.sources import Given, Read, Unread
from stepwell.embedding.documents.summary import Summary
from stepwell.embedding.documents.vectors import ChunkEmbedder

READ_AT_ONCE = 32
"""Documents read and put in together, so that small ones share calls of the embedder."""

READ_CHARACTERS = 4 << 20
"""No more are read once their texts come to this."""

Begin = Callable[[], Iterator[Read]]
"""Begins to read a source. It and its iterator block, and are called in threads."""


class Sync:
    """Keeps collections of one library in step with their sources.

    Several may run at once, in any processes, on the same collection too.
    """

    def __init__(
        self,
        library: Library,
        embedder: ChunkEmbedder,
        *,
        clock: Clock,
        bounds: Bounds | None = None,
        on_progress: Callable[[Summary], None] = lambda _: None,
    ) -> None:
        """Do nothing yet.

        Args:
            library: Has the collections.
            embedder: Of the chunks.
            clock: Measures how long it takes.
            bounds: How large a chunk is.
            on_progress: Called after each batch of documents, and each call of the embedder.
        """
        self._library = library
        self._embedder = embedder
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._on_progress = on_progress

    @property
    def recipe(self) -> Recipe:
        """How documents become points."""
        embedder = self._embedder
        return Recipe(embedder.kind, embedder.dimensions, self._bounds.chunker)

    async def run(self, name: str, begin: Begin, *, allow_empty: bool = False) -> Summary:
        """Bring the collection called ``name`` in step, which is made if need be.

        Where documents were put in by another recipe, all are put in anew, and the old ones are
        searched until that is done. May be cancelled at any moment; it ends when what it has taken
        out is out of the embedding cache, too.

        Args:
            name: Whatever it may be called later.
            begin: Begins to read the source.
            allow_empty: Take out everything if there is nothing in the source.

        Raises:
            ConfigError: There is nothing in the source, and something in the collection.
            EmbeddingError: Documents cannot be embedded, several in a row.
            EditionGone: The collection was dropped meanwhile.
            StoreError: The library failed.
        """
        started = self._clock.monotonic()
        state, edition = await self._library.edition(name, self.recipe)
        putting = Putting(self._library, self._embedder, self._bounds, edition, self._on_progress)
        try:
            await self._follow(name, begin, putting, started, allow_empty=allow_empty)
            await self._cut_over(state, edition, putting)
        except (Exception, asyncio.CancelledError):
            # What it has taken out nobody will take out again, so nobody else would forget it.
            with suppress(StoreError):
                await forget_unused(self._library, putting.left, self._embedder.forget)
            raise
        summary = putting.summary
        forget = self._embedder.forget
        summary.unforgotten = await forget_unused(self._library, putting.left, forget)
        summary.seconds = self._clock.monotonic() - started
        return summary

    async def _follow(
        self, name: str, begin: Begin, putting: Putting, started: float, *, allow_empty: bool
    ) -> None:
        """Put in and take out what the source has and has not. Raises as `run`."""
        summary = putting.summary
        seen = _Seen(await self._known(putting.edition))
        async for batch in _batches(begin):
            await _take(putting, seen.compared(batch, summary))
            summary.seconds = self._clock.monotonic() - started
            self._on_progress(summary)
        gone = seen.gone(summary.failed)
        if gone and not seen.names and not allow_empty:
            raise ConfigError(
                f"there are no documents in the source, and {len(gone)} in the collection {name!r};"
                " --allow-empty takes them out"
            )
        for document, known in gone.items():
            await putting.remove(document, known)

    async def foresee(self, name: str, begin: Begin) -> Summary:
        """Return what `run` would do. Nothing is embedded, or written.

        What is counted as embedded is what the collection lacks; a cache may have some of it.

        Raises:
            StoreError: The library failed.
        """
        started = self._clock.monotonic()
        state = await self._library.collection(name)
        edition = state.serving if state is not None and state.recipe == self.recipe else None
        summary = Summary()
        seen = _Seen(await self._known(edition))
        lacked: set[ContentDigest] = set()
        async for batch in _batches(begin):
            for compared in seen.compared(batch, summary):
                lacked |= await self._foreseen(compared, edition, summary)
        summary.embedded = len(lacked)
        summary.removed = len(seen.gone(summary.failed))
        summary.seconds = self._clock.monotonic() - started
        return summary

    async def _known(self, edition: Edition | None) -> dict[str, DocumentState]:
        if edition is None:
            return {}
        return {name: known async for name, known in self._library.documents(edition)}

    async def _foreseen(
        self, compared: Compared, edition: Edition | None, summary: Summary
    ) -> frozenset[ContentDigest]:
        """Count what is to be done about a document; return what must be embedded for it."""
        if compared.same_text:
            summary.unchanged += compared.unchanged
            summary.annotated += not compared.unchanged
            return frozenset()
        summary.added += compared.known is None
        summary.changed += compared.known is not None
        document = await asyncio.to_thread(cut_document, compared, self._bounds)
        digests = [chunk.digest for chunk in document.chunks]
        summary.chunks += len(digests)
        if edition is None:
            return frozenset(digests)
        return await self._library.missing(edition, digests)

    async def _cut_over(self, state: CollectionState, edition: Edition, putting: Putting) -> None:
        """Have the edition searched, once it has what the one before has."""
        if state.serving == edition or (state.serving is not None and putting.summary.failed):
            return
        old, recipe = state.serving, state.recipe
        if old is not None and recipe is not None and recipe.kind == self._embedder.kind:
            # Cut otherwise: their vectors are among those of this kind.
            putting.left += [chunk async for chunk in self._library.chunks(old)]
        await self._library.serve(state.collection, edition)


class _Seen:
    """What was known before a run, and what of it was seen."""

    def __init__(self, known: dict[str, DocumentState]) -> None:
        self.names: set[str] = set()
        self._known = known

    def compared(self, batch: Sequence[Read], summary: Summary) -> list[Compared]:
        """Return the documents of a batch beside what is known; note what was not read."""
        found: list[Compared] = []
        for read in batch:
            match read:
                case Unread():
                    summary.failed.append(read)
                case Given(name) if name in self.names:
                    summary.failed.append(Unread(name, "is there twice; the first one counts"))
                case Given(name):
                    self.names.add(name)
                    try:
                        found.append(compare(read, self._known.get(name)))
                    except UnicodeEncodeError:
                        summary.failed.append(Unread(name, "there is a lone surrogate in it"))
                    except ValueError as error:
                        summary.failed.append(Unread(name, str(error)))
        return found

    def gone(self, unread: Sequence[Unread]) -> dict[str, DocumentState]:
        """Return what was known and is not there any more."""
        gone = {name: known for name, known in self._known.items() if name not in self.names}
        if not gone:
            return gone
        return {
            name: known
            for name, known in gone.items()
            if not any(one.covers(name) for one in unread)
        }


async def _take(putting: Putting, batch: Sequence[Compared]) -> None:
    putting.summary.unchanged += sum(compared.unchanged for compared in batch)
    for compared in batch:
        if compared.same_text and not compared.unchanged:
            await putting.annotate(compared)
    await putting.put([compared for compared in batch if not compared.same_text])


async def _batches(begin: Begin) -> AsyncIterator[Sequence[Read]]:
    source = await asyncio.to_thread(begin)
    while batch := await asyncio.to_thread(_some, source):
        yield batch


def _some(source: Iterator[Read]) -> Sequence[Read]:
    batch: list[Read] = []
    characters = 0
    for read in source:
        batch.append(read)
        characters += len(read.text) if isinstance(read, Given) else 0
        if len(batch) == READ_AT_ONCE or characters >= READ_CHARACTERS:
            break
    return batch
