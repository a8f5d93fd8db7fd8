"""Text steps change prose as named, and never code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.keys.text import DEFAULT_STEPS, TextStep, normalise

ALL_STEPS = tuple(TextStep)
FENCED = "```python\r\nif  True :\r\n    X  =  'É'  \r\n```"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  hello \n", "hello"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("cafe\u0301", "caf\u00e9"),
        ("two  blanks stay", "two  blanks stay"),
        ("Case stays?", "Case stays?"),
        ("\u212a is the Kelvin sign, e\u0301", "\u212a is the Kelvin sign, e\u0301"),
        ("\uf90a 和 金 有什么不同", "\uf90a 和 金 有什么不同"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_default_steps(text: str, expected: str) -> None:
    """The default trims and settles line ends and composed characters, and no more."""
    assert normalise(text, DEFAULT_STEPS) == expected


def test_squeeze() -> None:
    """Runs of blanks become one, paragraphs stay apart."""
    assert normalise("a  b\t\tc\n\n\n\nd", (TextStep.SQUEEZE,)) == "a b c\n\nd"


def test_fold() -> None:
    """Case and punctuation at the end are gone, in both scripts."""
    assert normalise("How do I get a Refund? !", (TextStep.FOLD,)) == "how do i get a refund"
    assert normalise("如何退款？。", (TextStep.FOLD,)) == "如何退款"


def test_no_steps() -> None:
    """Without steps a text is compared as it is."""
    assert normalise("  a\r\n", ()) == "  a\r\n"


@pytest.mark.parametrize(
    "code",
    [
        FENCED,
        "~~~~\n  a  B  \n~~~\n  still code ?\n~~~~",
        "```\nnever closed  ?  ",
        "   ```\n  x\n   ```",
    ],
)
def test_fenced_code_is_never_touched(code: str) -> None:
    """A fenced block comes through every step byte for byte."""
    assert normalise(f"Explain  THIS:\n{code}", ALL_STEPS) == f"explain this:\n{code}"
    assert normalise(code, ALL_STEPS) == code


def test_inline_code_is_never_touched() -> None:
    """What stands between equal runs of backticks is code."""
    assert normalise("Is `A  B` the  SAME as ``a ` B``?", ALL_STEPS) == (
        "is `A  B` the same as ``a ` B``"
    )


def test_backticks_that_open_nothing_are_prose() -> None:
    """A lone backtick, and a fence with a backtick in its info string, protect nothing."""
    assert normalise("A ` B", ALL_STEPS) == "a ` b"
    assert normalise("```x ` Y\nB", ALL_STEPS) == "```x ` y\nb"


def test_folding_may_make_a_character_that_composes() -> None:
    """The Kelvin sign folds to a plain k, which an accent behind it then joins."""
    assert normalise("\u212a\u0301", ALL_STEPS) == "\u1e31"


@given(
    text=st.text(st.sampled_from("aA É`~?.\n\r \t金\u0301\u212a")),
    steps=st.sets(st.sampled_from(TextStep)),
)
def test_normalising_twice_changes_nothing_more(text: str, steps: set[TextStep]) -> None:
    """Every combination of steps is idempotent."""
    once = normalise(text, steps)
    assert normalise(once, steps) == once


@pytest.mark.parametrize(
    "unit", ["`", "`` ` ", "```\n", "\r\n ", "? ", "a`b``c```", "~~~ \n", " \n"]
)
def test_hostile_repetition_is_linear(unit: str) -> None:
    """A megabyte of the worst input is done at once; a quadratic step would take hours."""
    text = unit * (1_000_000 // len(unit))
    assert len(normalise(text, ALL_STEPS)) <= len(text)
