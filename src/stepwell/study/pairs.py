"""Pairs of questions: would the answer to one be given to the other?"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.core.entry import Phrasing
from stepwell.core.errors import ConfigError, EmbeddingError, RequestError
from stepwell.core.names import Level, Namespace
from stepwell.core.vectors import Unfit
from stepwell.keys.cache_key import KeyScheme
from stepwell.study.arm import Arm, NotServed, Question, Semantics
from stepwell.study.blocks import blocks
from stepwell.study.requests import body_of, endpoint_or_chat

PAIRS_AT_ONCE = 256
"""Their texts are embedded together."""

_TTL_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one pair."""

    hit: bool
    similarity: float
    """Cosine, in [0, 1]; 1 where the texts are the same to the exact layer, 0 where one has no
    vector."""
    refused_by: str | None
    """``None`` on a hit; else what the semantic layer says, or ``partition``: the requests differ
    in more than these words."""

    def as_row(self) -> dict[str, Any]:
        """Return it as it is written to a file."""
        return {
            "hit": self.hit,
            "similarity": round(self.similarity, 6),
            "refused_by": self.refused_by,
        }


class Pairs:
    """Compares pairs, each in a partition that has nothing else. Not thread-safe."""

    def __init__(
        self,
        semantics: Semantics,
        scheme: KeyScheme,
        level: Level,
    ) -> None:
        """Compare nothing yet.

        Args:
            semantics: Embeds the texts, and decides.
            scheme: Makes the keys.
            level: How alike they must be.
        """
        self._semantics = semantics
        self._scheme = scheme
        self._level: Level = level

    async def compare(
        self, rows: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> AsyncIterator[Comparison]:
        """Yield what becomes of each row, in order: the answer to ``a`` is stored, ``b`` asked.

        Args:
            rows: Where each stands, for messages, and the row.

        Raises:
            ConfigError: A row has no ``a`` and ``b``.
        """
        number = 0
        for block in blocks(rows, PAIRS_AT_ONCE):
            pairs = []
            for place, row in block:
                pairs.append([self._question(place, row, side, number) for side in ("a", "b")])
                number += 1
            for comparison in await self._compare(pairs):
                yield comparison

    async def _compare(self, pairs: Sequence[Sequence[Question]]) -> list[Comparison]:
        # Of their own, so that the partitions are fresh and nothing is kept.
        semantics = self._semantics.afresh()
        arm = Arm(semantics)
        phrasings = [q.phrasing for pair in pairs for q in pair if q.phrasing is not None]
        arm.begin(await semantics.texts.prepare(phrasings))
        return [await self._one(arm, stored, asked) for stored, asked in pairs]

    async def _one(self, arm: Arm, stored: Question, asked: Question) -> Comparison:
        await arm.ask(stored)
        outcome = await arm.ask(asked)
        if not isinstance(outcome, NotServed):
            return Comparison(True, outcome.similarity, None)  # noqa: FBT003  (its name says it)
        why = outcome.why
        if outcome.nearest is None and why == "nothing-near":
            why = await self._reason(stored.phrasing, asked.phrasing)
        return Comparison(False, outcome.similarity, why)  # noqa: FBT003

    async def _reason(self, stored: Phrasing | None, asked: Phrasing | None) -> str:
        """Return why the stored question was not even compared."""
        if stored is None or asked is None or stored.partition != asked.partition:
            return "partition"
        found = (await self._semantics.texts.embedder.all_of([stored.text]))[stored.text]
        if isinstance(found, EmbeddingError):
            return "embedder"
        return found if isinstance(found, Unfit) else "nothing-near"

    def _question(self, place: str, row: Mapping[str, Any], side: str, number: int) -> Question:
        if side not in row:
            raise ConfigError(f"{place}: {side!r} is missing; a row needs 'a' and 'b'.")
        # A namespace of its own makes the partition fresh.
        namespace = Namespace(number.to_bytes(16, "big"))
        try:
            body = body_of(row[side])
            endpoint = endpoint_or_chat(body)
            key = self._scheme.key(namespace, endpoint, body)
            phrasing = self._scheme.phrasing(namespace, endpoint, body)
        except RequestError as error:
            raise ConfigError(f"{place}: {side!r} cannot be asked: {error}") from error
        return Question(number, key, phrasing, self._level, 0.0, _TTL_SECONDS)
