"""A closer look at two texts: does one answer serve both?

An embedder's cosine says that two texts are about the same thing. This compares them token by
token, by the embedder's own last states, and a small logistic regression weighs what it finds. See
``design/0007-closer-look.md`` for what it was trained on and what it is worth.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Vectors
from stepwell.embedding.conversion.unigram import UNKNOWN, Vocabulary
from stepwell.embedding.encoder import Encoder, Tokenizer, Tokens, judge, unit
from stepwell.embedding.likeness import FEATURES, Read, likeness
from stepwell.embedding.onnx_encoder import OnnxEncoder
from stepwell.embedding.recipes import E5, mean_vector
from stepwell.embedding.text import plainly_unfit, readable
from stepwell.embedding.unigram import UnigramTokenizer

WINDOW_TOKENS = 36
"""Longest text it judges, with the tokens around it: some 25 words. It was trained on short ones.
On 629 public pairs of some 30 to 45 tokens it refuses repeats and look-alikes alike: right are 92 %
of what similarity and valve serve, and 90 % of what it leaves of that, a third."""

_COMMONEST, _RAREST = -3.0, -14.0
"""Logarithms of how likely tokens of weight 0 and 1 are."""

_FARTHEST_ODDS = 500.0


class States(Protocol):
    """Gives the states of a text's tokens. Safe for many threads."""

    def states(self, ids: list[int]) -> Vectors:
        """Return the last layer's states, (tokens, hidden)."""
        ...


class Lexicon:
    """What is known of tokens without their text."""

    def __init__(self, vocabulary: Vocabulary, lead: int) -> None:
        """Weigh every piece.

        Args:
            vocabulary: The model's.
            lead: How many tokens the prefix takes, with the one that marks the start.
        """
        scores = np.array([score for _, score in vocabulary.pieces], np.float64)
        self.weights = np.clip((_COMMONEST - scores) / (_COMMONEST - _RAREST), 0, 1)
        self.weights[: UNKNOWN + 1] = 0
        self.digits = np.array([any(map(str.isdigit, piece)) for piece, _ in vocabulary.pieces])
        self.lead = lead


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression over `FEATURES`."""

    features: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def log_odds(self, values: npt.NDArray[np.float64]) -> float:
        """Return the log-odds that one answer serves both texts."""
        standard = (values - np.array(self.means)) / np.array(self.scales)
        return float(standard @ np.array(self.weights) + self.bias)


def bundled_weights() -> Weights:
    """Return the weights that come with this package. Reads a file of 4 kB.

    Raises:
        ConfigError: They are of another version of `FEATURES`.
    """
    raw = files("stepwell.embedding").joinpath("data", "second-opinion.json").read_bytes()
    weights = msgspec.json.decode(raw, type=Weights)
    if weights.features != FEATURES:
        raise ConfigError("the weights of the comparison do not fit what it measures")
    return weights


class TokenComparer:
    """Judges pairs of texts; a `Scorer`. Safe for many threads at once."""

    def __init__(
        self, tokenizer: Tokenizer, network: States, lexicon: Lexicon, weights: Weights
    ) -> None:
        """Put the parts together."""
        self._tokenizer = tokenizer
        self._network = network
        self._lexicon = lexicon
        self._weights = weights

    def score(self, one: str, other: str) -> float | None:
        """Return how surely one answer serves both texts, in [0, 1]; the same in either order.

        ``None`` if it cannot tell: see `read`. It is a score: that half of the pairs at 0.5 are
        the same holds for no one's traffic. Blocks; costs two runs of the embedder and 0.3 ms.

        Raises:
            EmbeddingError: The network failed.
        """
        # In one order: sums of floats depend on it.
        tokens = [self._tokens(text) for text in sorted((one, other))]
        if None in tokens:
            return None
        first, second = [self._read(found) for found in tokens if found is not None]
        return self.compare(first, second)

    def compare(self, one: Read, other: Read) -> float:
        """Return the same as `score`, of texts that were read. Costs 0.3 ms.

        Raises:
            EmbeddingError: Their states are not finite.
        """
        if np.array_equal(one.ids, other.ids):
            return 1.0  # Nothing it was trained on: the model reads one and the same text.
        odds = self._weights.log_odds(likeness(one, other))
        if not np.isfinite(odds):
            raise EmbeddingError("the score of two texts is not a number")
        return float(1 / (1 + np.exp(-np.clip(odds, -_FARTHEST_ODDS, _FARTHEST_ODDS))))

    def read(self, text: str) -> Read | None:
        """Return ``text`` as it is compared. Costs one run of the embedder.

        ``None`` if it is empty, longer than `WINDOW_TOKENS`, or has tokens that the embedder does
        not know.

        Raises:
            EmbeddingError: The network failed.
        """
        tokens = self._tokens(text)
        return None if tokens is None else self._read(tokens)

    def _tokens(self, text: str) -> Tokens | None:
        """Return the tokens of ``text``, if it can be compared."""
        if plainly_unfit(text, WINDOW_TOKENS) is not None:
            return None
        tokens = self._tokenizer.tokens(readable(text))
        unfit = judge(tokens, window_tokens=WINDOW_TOKENS, unknown_share=E5.unknown_share)
        return None if unfit is not None else tokens

    def _read(self, tokens: Tokens) -> Read:
        states = self._network.states([*tokens.ids])
        mean = mean_vector(E5)
        vector = unit(states.mean(axis=0))
        own = slice(self._lexicon.lead, -1)
        ids = np.array(tokens.ids, np.int64)[own]
        lengths = np.linalg.norm(states[own], axis=1, keepdims=True)
        return Read(
            vector=vector if mean is None else unit(vector - mean),
            ids=ids,
            states=np.asarray(states[own] / np.maximum(lengths, np.float32(1e-12)), np.float32),
            weights=self._lexicon.weights[ids],
            digits=self._lexicon.digits[ids],
        )


def comparer_of(encoder: Encoder, weights: Weights | None = None) -> TokenComparer | None:
    """Return what compares texts by the states of ``encoder``; ``None`` unless it is that of `E5`.

    Costs 0.1 s and 1 MB.

    Raises:
        ConfigError: The weights do not fit.
    """
    if not isinstance(encoder, OnnxEncoder) or not isinstance(encoder.tokenizer, UnigramTokenizer):
        return None
    tokenizer = encoder.tokenizer
    # What all texts begin with is what two texts without a token in common have in common.
    lead = _common_lead(tokenizer, "a", "我")
    lexicon = Lexicon(tokenizer.vocabulary(), lead)
    return TokenComparer(tokenizer, encoder.network, lexicon, weights or bundled_weights())


def _common_lead(tokenizer: Tokenizer, one: str, other: str) -> int:
    texts = [tokenizer.tokens(text) for text in (one, other)]
    pairs = zip(*(tokens.ids for tokens in texts if tokens is not None), strict=False)
    lead = 0
    for first, second in pairs:
        if first != second:
            break
        lead += 1
    return lead
