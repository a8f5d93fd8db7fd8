"""The second opinion: what it judges and what not, and its weights."""

import math

import numpy as np
import pytest

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Vectors
from stepwell.embedding import comparison as module
from stepwell.embedding.comparison import (
    WINDOW_TOKENS,
    Lexicon,
    TokenComparer,
    Weights,
    bundled_weights,
)
from stepwell.embedding.conversion.unigram import Vocabulary
from stepwell.embedding.encoder import Tokens
from stepwell.embedding.likeness import FEATURES, likeness

HIDDEN = 384
WORDS = 128


class Letters:
    """A token for each character, between a start, a lead and an end; ``?`` is unknown."""

    def tokens(self, text: str) -> Tokens | None:
        ids = [ord(letter) for letter in text if letter != " "]
        return Tokens([0, 58, *ids, 2], text.count("?")) if ids else None


class Places:
    """A state for each token, turned a little by where it stands."""

    def __init__(self) -> None:
        random = np.random.default_rng(4)
        self.table = random.normal(0, 1, (WORDS, HIDDEN)).astype(np.float32)
        self.runs = 0

    def states(self, ids: list[int]) -> Vectors:
        self.runs += 1
        return np.asarray(self.table[ids] + 0.1 * self.table[: len(ids)], np.float32)


def lexicon() -> Lexicon:
    pieces = [(chr(number), -3.0 - number / 8) for number in range(WORDS)]
    return Lexicon(Vocabulary(pieces), lead=2)


def judge(states: Places | None = None) -> TokenComparer:
    return TokenComparer(Letters(), states or Places(), lexicon(), bundled_weights())


def test_the_less_is_alike_the_less_sure_it_is() -> None:
    opinion = judge()
    texts = ("open the account", "open the accounts", "open the doors", "fry five eggs now")
    sure = [opinion.score(texts[0], text) or 0.0 for text in texts]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] > 0.5
    assert 0 < sure[-1] < 0.05


@pytest.mark.parametrize("other", ["open the account", "open  the account", "openthe account"])
def test_what_the_model_reads_as_one_text_is_one(other: str) -> None:
    """However long it is, and though nothing of the kind was trained on."""
    assert judge().score("open the account", other) == 1.0


def test_the_order_does_not_matter() -> None:
    opinion = judge()
    assert opinion.score("apple pie", "banana") == opinion.score("banana", "apple pie")


@pytest.mark.parametrize("text", ["", "  ", "wh?t", "a" * 10_000, "b" * WINDOW_TOKENS])
def test_it_does_not_judge_what_it_cannot_read(text: str) -> None:
    assert judge().score("apple", text) is None
    assert judge().score(text, "apple") is None


def test_what_is_too_long_is_not_run() -> None:
    states = Places()
    assert judge(states).score("b" * WINDOW_TOKENS, "apple") is None
    assert states.runs == 0


def test_what_stands_in_every_text_is_left_out() -> None:
    read = judge().read("a1")
    assert read is not None
    assert read.ids.tolist() == [97, 49]
    assert read.digits.tolist() == [False, True]
    assert read.weights == pytest.approx([min(97 / 88, 1), 49 / 88])
    np.testing.assert_allclose(np.linalg.norm(read.states, axis=1), 1, atol=1e-6)


def test_texts_that_were_read_are_compared_as_texts_are() -> None:
    opinion = judge()
    one, other = opinion.read("apple"), opinion.read("apple tree")
    assert one is not None
    assert other is not None
    assert opinion.compare(one, other) == opinion.score("apple", "apple tree")


def test_states_that_are_no_numbers_are_an_error() -> None:
    class Broken(Places):
        def states(self, ids: list[int]) -> Vectors:
            return np.full((len(ids), HIDDEN), np.nan, np.float32)

    with pytest.raises(EmbeddingError):
        judge(Broken()).score("apple", "banana")


def test_log_odds_are_a_weighted_sum_of_standardised_values() -> None:
    weights = Weights(("a", "b"), (1.0, 2.0), (2.0, 4.0), (0.5, -3.0), 0.25)
    assert weights.log_odds(np.array([5.0, -2.0])) == pytest.approx(0.5 * 2 - 3 * -1 + 0.25)


def test_the_bundled_weights_fit_what_is_measured() -> None:
    weights = bundled_weights()
    assert weights.features == FEATURES
    assert all(math.isfinite(value) for value in (*weights.weights, weights.bias))
    assert all(scale > 0 for scale in weights.scales)
    opinion = judge()
    one, other = opinion.read("apple"), opinion.read("pear")
    assert one is not None
    assert other is not None
    assert likeness(one, other).shape == (len(weights.weights),)


def test_weights_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEATURES", (*FEATURES, "one more"))
    with pytest.raises(ConfigError, match="do not fit"):
        bundled_weights()
