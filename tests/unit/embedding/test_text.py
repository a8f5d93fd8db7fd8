"""What can be said of a text before any model sees it."""

import pytest

from stepwell.core.vectors import Unfit
from stepwell.embedding.text import CHARACTERS_PER_TOKEN, MAX_CHARACTERS, plainly_unfit, readable

WINDOW = 8
LONGEST = WINDOW * CHARACTERS_PER_TOKEN


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000", "\u2028", " " * (MAX_CHARACTERS + 1)])
def test_blanks_are_empty(text: str) -> None:
    assert plainly_unfit(text, WINDOW) is Unfit.EMPTY


@pytest.mark.parametrize("text", ["a", "好", "😀", "x" * LONGEST, "a" + " " * 10_000 + "b"])
def test_what_may_fit_is_left_to_the_model(text: str) -> None:
    """Blanks between words do not count: no tokenizer keeps them."""
    assert plainly_unfit(text, WINDOW) is None


@pytest.mark.parametrize(
    "text",
    ["x" * (LONGEST + 1), "a b " * LONGEST, "长" * 100_000, "a" + " " * MAX_CHARACTERS + "b"],
)
def test_what_cannot_fit_is_over_the_window(text: str) -> None:
    assert plainly_unfit(text, WINDOW) is Unfit.OVER_WINDOW


@pytest.mark.parametrize("text", ["plain", "你好 😀", "é\u0301"])
def test_a_text_that_can_be_written_stays(text: str) -> None:
    assert readable(text) == text


def test_lone_surrogates_become_replacement_characters() -> None:
    assert readable("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert readable("\ud83d\ude00") == "😀", "a pair is one character"
