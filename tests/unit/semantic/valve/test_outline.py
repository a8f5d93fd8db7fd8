"""English words folded, and what two outlines have in common."""

import pytest

from stepwell.semantic.valve.alignment import are_stories, is_reversed, unmatched
from stepwell.semantic.valve.english import fold, pieces
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import read


def outlined(text: str) -> Outline:
    return outline(read(text))


@pytest.mark.parametrize(
    "forms",
    [
        "make makes making made",
        "study studies studied studying",
        "stop stops stopped stopping",
        "call calls called calling",
        "organise organises organised organizing organize",
        "analyse analyze analyzed",
        "colour colours color coloured",
        "kilometre kilometres kilometer",
        "steal stole stolen stealing",
        "child children",
        "box boxes",
        "bus buses",
        "use used using uses",
    ],
)
def test_forms_of_a_word_share_a_fold(forms: str) -> None:
    """Inflection and spelling are taken off."""
    assert len({fold(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "words", ["thing think", "news new", "string strung", "less let", "bus but", "need need-not"]
)
def test_other_words_do_not(words: str) -> None:
    """However alike they end."""
    one, other = words.split()
    assert fold(one) != fold(other)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("don't", ("do", "not")),
        ("don’t", ("do", "not")),
        ("dont", ("do", "not")),
        ("can't", ("can", "not")),
        ("cannot", ("can", "not")),
        ("won't", ("will", "not")),
        ("what's", ("what", "is")),
        ("anna's", ("anna", "'s")),
        ("they're", ("they", "are")),
        ("self-employed", ("self", "employed")),
        ("plain", ("plain",)),
    ],
)
def test_pieces(word: str, expected: tuple[str, ...]) -> None:
    """Contractions and joined words come apart."""
    assert pieces(word) == expected


def test_a_name_has_content_where_the_word_has_none() -> None:
    """US is a country, us is not."""
    assert "us" in outlined("Drive in the US").content
    assert "us" not in outlined("Drive with us").content


def test_what_has_no_counterpart() -> None:
    """Other forms, the same beginning and any shared Chinese character are counterparts."""
    mine, theirs = outlined("fluency in spoken Dutch"), outlined("speaking Dutch fluently well")
    assert unmatched(mine, theirs) == frozenset()
    assert unmatched(outlined("a bike for children"), outlined("a bike")) == {"child"}
    assert unmatched(outlined("吃水果"), outlined("水果")) == frozenset()
    assert unmatched(outlined("孕妇 水果"), outlined("水果")) == {"孕妇"}


def test_what_is_reversed() -> None:
    """First and last have changed places; a word that is both has not."""
    assert is_reversed(outlined("Rome is hotter than Oslo"), outlined("Oslo is colder than Rome"))
    assert not is_reversed(outlined("Rome is hot"), outlined("Rome is cold"))
    assert not is_reversed(outlined("feed before feeding"), outlined("feed after feeding"))


def test_stories_are_long_and_told_in_different_words() -> None:
    """A long text that was edited is none, nor is a question."""
    story = "Last week I went to the coast with my brother and we rented a boat that was too small "
    story += "for two so one had to wait on the beach all afternoon"
    other = (
        "On Monday the dentist pulled a tooth and gave me pills that make me sleepy at work and "
    )
    other += "I wonder whether driving home is allowed at all"
    assert are_stories(outlined(story), outlined(other))
    assert not are_stories(outlined(story), outlined(story.replace("boat", "canoe")))
    assert not are_stories(outlined("Why is it so?"), outlined("Tell me more about boats"))
