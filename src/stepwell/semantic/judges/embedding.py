"""The judge that compares the meaning of two answers by their vectors."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from stepwell.core.errors import EmbeddingTimeout
from stepwell.core.judging import Respondent, Said
from stepwell.core.vectors import Embedder, Embeddings
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.judges.calls import same_calls
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import Reading, read

SHORT_CHARACTERS = 200
"""In so short an answer, a number or a *not* is the answer."""

FAR_SHARE = 2 / 3
"""Of the similarity under which questions are not worth a reuse. Right answers differ more in
wording and length than questions do, and a no has consequences."""

_TELLING = frozenset({Kind.NUMBER, Kind.DATE, Kind.NEGATION})

Differences = Callable[[Reading, Reading], Iterator[Difference]]


class EmbeddingJudge:
    """Says yes to near answers with the same numbers and negations, no to far ones.

    Near is what it is for questions at level ``general``; far is well below what is worth a reuse.
    In between, where right answers in other words lie beside wrong ones, it cannot tell, nor where
    an answer is longer than the embedder reads. Blind to what the embedder is blind to; a model
    judges better.
    """

    def __init__(
        self, embedder: Embedder, calibration: Calibration, differences: Differences
    ) -> None:
        """Take the layer's embedder and calibration, and the safety valve."""
        self._embedder = embedder
        self._near = calibration.min_similarity["general"]
        self._far = calibration.reuse_similarity * FAR_SHARE
        self._differences = differences

    async def same(
        self,
        question: str,  # noqa: ARG002  (the port's signature)
        one: Said,
        other: Said,
        respondent: Respondent,  # noqa: ARG002
    ) -> bool | None:
        """As `AnswerJudge.same`. Costs two embeddings."""
        calls = same_calls(one, other)
        if not calls:
            return calls
        if one.text == other.text:
            return True
        embeddings = await self._embed([one.text, other.text])
        if any(embeddings.unfit):
            return None
        similarity = float(embeddings.vectors[0] @ embeddings.vectors[1])
        return False if similarity < self._far else self._compare(one.text, other.text, similarity)

    async def _embed(self, texts: list[str]) -> Embeddings:
        """Return vectors, however long it takes: the caller bounds that.

        A lookup's budget is for those who wait for an answer. What is late is computed all the
        same, and found when it is asked for again.
        """
        while True:
            with suppress(EmbeddingTimeout):
                return await self._embedder.embed(texts)

    def _compare(self, one: str, other: str, similarity: float) -> bool | None:
        found = self._differences(read(one), read(other))
        if any(difference.kind in _TELLING for difference in found):
            short = max(len(one), len(other)) <= SHORT_CHARACTERS
            return False if short else None
        return True if similarity >= self._near else None
