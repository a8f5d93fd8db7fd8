"""Texts in two languages, or in one the valve cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.valve.language import CHINESE, ENGLISH, NONE, language, language_of
from stepwell.semantic.valve.reading import read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I return shoes?", ENGLISH),
        ("docker prune images", ENGLISH),
        ("Où est le café?", "French"),
        ("Who sang La vie en rose?", ENGLISH),
        ("Is a café au lait the same as a latte?", ENGLISH),
        ("What does 'der Hund' mean in English?", ENGLISH),
        ("Wie kann ich mein Passwort ändern?", "German"),
        ("¿Cómo puedo cambiar mi contraseña?", "Spanish"),
        ("Come posso cambiare la mia password per il sito?", "Italian"),
        ("Como posso mudar minha senha?", "Portuguese"),
        ("Hoe kan ik mijn wachtwoord wijzigen?", "Dutch"),
        ("如何退货？", CHINESE),
        ("如何安装Python和Docker Desktop", CHINESE),
        ("iPhone15怎么截图", CHINESE),
        ("如何退貨", CHINESE),
        ("どうやって返品しますか", "Hiragana"),
        ("반품은 어떻게 하나요?", "Hangul"),
        ("Как вернуть обувь?", "Cyrillic"),
        ("كيف أعيد الحذاء؟", "Arabic"),
        ("What does спасибо mean?", "Cyrillic"),
        ("15 + 27 = ?", NONE),
        ("", NONE),
        ("🙂🙂", NONE),
    ],
)
def test_language_of(text: str, expected: str) -> None:
    """By script, then by function words; in doubt about Latin letters, English."""
    assert language_of(read(text)) == expected


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("How do I return shoes?", "如何退鞋", True),
        ("How do I return shoes?", "Comment est-ce que je peux rendre mes chaussures ?", True),
        ("Où est la gare?", "Où est donc la gare, pour les trains?", True),
        ("どうやって返品しますか", "どうやって返品しますか？", True),
        ("如何退货", "怎么退货", False),
        ("How do I return shoes?", "a way to return shoes", False),
        ("15", "15 km", False),
        ("15", "1 5", False),
    ],
)
def test_language(one: str, other: str, *, differ: bool) -> None:
    """English with English, Chinese with Chinese; others are not vouched for."""
    for asked, stored in ((one, other), (other, one)):
        assert (language(read(asked), read(stored)) is not None) == differ


@given(st.text(), st.text())
def test_never_raises(one: str, other: str) -> None:
    """Symmetric for any two texts."""
    a, b = read(one), read(other)
    assert (language(a, b) is None) == (language(b, a) is None)
