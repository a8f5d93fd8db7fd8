"""Texts that no document has any more leave the embedding cache, too."""

from collections.abc import Awaitable, Callable, Sequence

from stepwell.core.documents import CollectionState, KnownChunk, Library
from stepwell.core.errors import StoreError
from stepwell.embedding.documents.vectors import with_parts

FORGOTTEN_AT_ONCE = 1_000

Forget = Callable[[Sequence[str]], Awaitable[object]]
"""Forgets texts. Raises `StoreError`."""


async def forget_unused(library: Library, left: Sequence[KnownChunk], forget: Forget) -> int:
    """Forget those of ``left`` that no edition of any collection has.

    Returns:
        How many may be known all the same, since they could not be forgotten.

    Raises:
        StoreError: The library failed.
    """
    kept = 0
    for start in range(0, len(left), FORGOTTEN_AT_ONCE):
        texts = dict(left[start : start + FORGOTTEN_AT_ONCE])
        for digest in await library.used([*texts]):
            del texts[digest]
        try:
            await forget([*with_parts([*texts.values()])])
        except StoreError:
            kept += len(texts)
    return kept


async def drop_collection(library: Library, state: CollectionState, forget: Forget) -> int:
    """Remove a collection, and forget its texts that no other has; returns as `forget_unused`.

    Args:
        library: Has it.
        state: The collection.
        forget: Forgets texts of its kind of vectors.

    Raises:
        StoreError: The library failed.
    """
    chunks: list[KnownChunk] = []
    if state.serving is not None:
        chunks = [chunk async for chunk in library.chunks(state.serving)]
    await library.drop(state.collection)
    return await forget_unused(library, chunks, forget)
