"""Labelled pairs, measured: how alike each is, and what the safety valve says."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepwell.core.errors import ConfigError, EmbeddingError, RequestError
from stepwell.core.names import Level, Namespace
from stepwell.core.vectors import Comparer, Unfit
from stepwell.keys.cache_key import KeyScheme
from stepwell.semantic.acceptance.calibration import Compared
from stepwell.semantic.comparison import COMPARISON
from stepwell.semantic.valve.difference import Difference
from stepwell.semantic.valve.language import CHINESE, ENGLISH, language_of
from stepwell.semantic.valve.reading import Reading, read
from stepwell.semantic.valve.reordered import is_reordered
from stepwell.semantic.valve.valve import difference
from stepwell.study.blocks import blocks
from stepwell.study.remembering import Embedded, RememberingEmbedder
from stepwell.study.requests import body_of, endpoint_or_chat

PAIRS_AT_ONCE = 256

_ONE_TENANT = Namespace(bytes(16))
_MAX_NAME = 64

NOT_LABELLED = "not labelled"
SAME = "the same to the exact layer"
PARTITION = "in different partitions"


@dataclass(frozen=True, slots=True)
class Measured:
    """A labelled pair that the semantic layer would compare."""

    texts: tuple[str, str]
    right: bool
    """Whether one answer is right for both."""
    similarity: float
    refused_by: str | None
    """The kind of difference that the valve finds."""
    language: str
    """As the row says; else ``en``, ``zh`` or ``other``, by the words."""
    request_class: str
    """As the row says, or empty."""
    category: str
    """As the row says, or empty."""
    score: float | None = None
    """Of the comparison; ``None`` if nothing compares, or the texts cannot be compared."""

    def at(self, level: Level, compared: Compared | None) -> "Measured":
        """Return the pair as ``level`` sees it: what the comparison refuses is refused."""
        if compared is None or self.refused_by is not None:
            return self
        if self.score is None:
            passes = self.similarity >= compared.min_similarity[level]
        else:
            passes = self.score >= compared.min_score[level]
        return self if passes else replace(self, refused_by=COMPARISON)


@dataclass(frozen=True, slots=True)
class Labels:
    """All pairs of some files."""

    pairs: Sequence[Measured]
    left_out: Mapping[str, int]
    """How many are not among them, by why."""


async def measure(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    embedder: RememberingEmbedder,
    scheme: KeyScheme,
    comparer: Comparer | None = None,
) -> AsyncIterator[Measured | str]:
    """Yield each row, measured, or why it is left out.

    Args:
        rows: Where each stands, for messages, and the row: ``a``, ``b``, ``label``, and perhaps
            ``lang``, ``class`` and ``category``.
        embedder: Embeds the texts.
        scheme: Says which texts are the same.
        comparer: Compares what the valve lets through, if anything does.

    Raises:
        ConfigError: A row has no ``a``, ``b`` and ``label`` of 0, 1 or null.
    """
    for block in blocks(rows, PAIRS_AT_ONCE):
        taken = [_take(place, row, scheme) for place, row in block]
        texts = [text for pair in taken if isinstance(pair, _Pair) for text in pair.texts]
        embedded = await embedder.all_of(texts)
        found = [pair if isinstance(pair, str) else _measured(pair, embedded) for pair in taken]
        for pair in await asyncio.gather(*(_scored(pair, comparer) for pair in found)):
            yield pair


@dataclass(frozen=True, slots=True)
class _Pair:
    texts: tuple[str, str]
    right: bool
    row: Mapping[str, Any]


def _take(place: str, row: Mapping[str, Any], scheme: KeyScheme) -> _Pair | str:
    label = row.get("label", _MISSING)
    if label is _MISSING or "a" not in row or "b" not in row:
        raise ConfigError(f"{place}: a row needs 'a', 'b' and 'label'.")
    if label is None:
        return NOT_LABELLED
    if label not in (0, 1):
        raise ConfigError(f"{place}: label is {label!r}; allowed: 1, 0 or null.")
    try:
        sides = [body_of(row[side]) for side in ("a", "b")]
        phrasings = [scheme.phrasing(_ONE_TENANT, endpoint_or_chat(body), body) for body in sides]
    except RequestError as error:
        raise ConfigError(f"{place}: cannot be asked: {error}") from error
    one, other = phrasings
    if one is None or other is None or one.partition != other.partition:
        return PARTITION
    if one.text == other.text:
        return SAME
    return _Pair((one.text, other.text), bool(label), row)


_MISSING = object()


def _measured(pair: _Pair, embedded: Mapping[str, Embedded]) -> Measured | str:
    one, other = (embedded[text] for text in pair.texts)
    for found in (one, other):
        if isinstance(found, Unfit):
            return str(found)
        if isinstance(found, EmbeddingError):
            return "embedder"
    similarity = float(np.clip(np.dot(one, other), 0, 1))  # type: ignore[arg-type]
    stored, asked = map(read, pair.texts)
    found_difference: Difference | None = difference(asked, stored)
    return Measured(
        texts=pair.texts,
        right=pair.right,
        similarity=similarity,
        refused_by=None if found_difference is None else str(found_difference.kind),
        language=_name(pair.row.get("lang")) or _language(asked),
        request_class=_name(pair.row.get("class")),
        category=_name(pair.row.get("category")),
    )


async def _scored(pair: Measured | str, comparer: Comparer | None) -> Measured | str:
    """Return the pair with its score, if it needs one."""
    if comparer is None or isinstance(pair, str) or pair.refused_by is not None:
        return pair
    if is_reordered(*map(read, pair.texts)):
        return replace(pair, score=1.0)  # Nobody compares them: see there.
    try:
        return replace(pair, score=await comparer.score(*pair.texts))
    except EmbeddingError:
        return "embedder"


def _language(reading: Reading) -> str:
    return _CODES.get(reading.fact(language_of), "other")


_CODES = {ENGLISH: "en", CHINESE: "zh"}


def _name(value: object) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""
