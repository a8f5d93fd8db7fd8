"""A new version, filled with the texts of an old one, in the background."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from stepwell.core.embedding import ContentDigest, FullStore, KnownText, VectorKind
from stepwell.core.errors import ConfigError, EmbeddingError, StoreUnavailable
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.job import Given
from stepwell.embedding.cache.pace import Bucket
from stepwell.embedding.cache.provider import BadReply, Provider, Refused

BATCH: Final = 256
_WRITTEN_WITHIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Filled:
    """How far a filling has come."""

    texts: int
    """That have a vector now and had none before."""
    failed: int
    """That the provider refused, or that were not kept. They are left out until the next run."""


async def fill(
    cache: EmbeddingCache,
    full: FullStore,
    old: str,
    new: VectorKind,
    provider: Provider,
    *,
    texts_per_minute: float | None = None,
    batch: int = BATCH,
) -> AsyncIterator[Filled]:
    """Embed the texts of ``old`` that have no vector in ``new``, those used last first.

    Requests for the new version go on meanwhile, and compute what they need. Nothing has to be
    remembered between runs: each asks what is missing. Old vectors are never served as new ones.

    Args:
        cache: Over ``full``.
        full: Has both versions.
        old: A version.
        new: The kind of the new one.
        provider: Computes it.
        texts_per_minute: At most; ``None``: as fast as the provider's pace allows.
        batch: Texts at a time.

    Yields:
        After each batch.

    Raises:
        ConfigError: ``old`` is ``new``.
        StoreError: The full store failed, or has no room for another version.
        EmbeddingError: The provider failed; what came is kept, and another run goes on from there.
    """
    if old == new.version:
        raise ConfigError(f"{old} is the version that is to be filled; name an older one.")
    pace = provider.pace
    rate = None if texts_per_minute is None else Bucket(texts_per_minute)
    filled, failed = 0, set[ContentDigest]()
    await cache.register(new)
    while known := await _missing(full, old, new, batch, failed):
        if rate is not None:
            await pace.pause(rate.take(len(known), pace.clock.monotonic()))
        came = await _embedded(cache, new, known, provider)
        if await cache.flush(_WRITTEN_WITHIN_SECONDS):
            raise StoreUnavailable(f"the {full.tier} store takes no vectors; run it again later.")
        if new.version in cache.figures.drifted:
            raise EmbeddingError(f"the provider of {new.version} has changed its model")
        kept = (await full.get(new.version, list(came))).values.keys()
        filled += len(kept)
        failed |= {text.digest for text in known} - kept
        yield Filled(filled, len(failed))


async def _missing(
    full: FullStore, old: str, new: VectorKind, at_most: int, failed: set[ContentDigest]
) -> Sequence[KnownText]:
    known = await full.unfilled(old, new.version, at_most + len(failed))
    return [text for text in known if text.digest not in failed][:at_most]


async def _embedded(
    cache: EmbeddingCache, kind: VectorKind, known: Sequence[KnownText], provider: Provider
) -> set[ContentDigest]:
    """Return what got a vector: where one is refused and so all are, one by one.

    Raises:
        EmbeddingError: None of them did, or the provider is not to be had just now.
    """
    try:
        return await _settled(cache, kind, known, provider)
    except (Refused, BadReply) as error:
        if isinstance(error, Refused) and error.may_pass:
            raise
        came: set[ContentDigest] = set()
        for text in known:
            with contextlib.suppress(Refused, BadReply):
                came |= await _settled(cache, kind, [text], provider)
        if not came:
            raise
        return came


async def _settled(
    cache: EmbeddingCache, kind: VectorKind, known: Sequence[KnownText], provider: Provider
) -> set[ContentDigest]:
    outcomes = await cache.settle(kind, {text.digest: text.text for text in known}, provider)
    return {digest for digest, outcome in outcomes.items() if isinstance(outcome, Given)}
