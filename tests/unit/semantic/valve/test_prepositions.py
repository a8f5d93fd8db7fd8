"""Prepositions: in which role a thing is asked of."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.prepositions import preposition
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import difference

DIFFERENT = [
    ("How do I answer a letter to my aunt?", "How do I answer a letter from my aunt?"),
    ("When does the ferry to Leith leave?", "What time does the ferry from Leith go?"),
    ("Turn the file into a picture", "Turn the file from a picture"),
    ("Is it hard to work for a cousin?", "Is it hard to work with a cousin?"),
    ("What did the coach say about him?", "What did the coach say to him?"),
    ("Write a song about my dog", "Write a song for my dog"),
    ("Who does the baker work for?", "Who does the baker work with?"),
    ("Can I walk through the garden?", "Can I walk around the garden?"),
    ("Is the key on the shelf?", "Is the key under the shelf?"),
    ("What may I eat during the fast?", "What may I eat after the fast?"),
    ("Is it a painting of Vermeer?", "Is it a painting by Vermeer?"),
    # Chinese.
    ("从机场坐哪路车", "到机场坐哪路车"),
    ("替老师写一封信", "跟老师写一封信"),
]

ALIKE = [
    ("How do I empty the cache in Chrome?", "How do I empty the cache on Chrome?"),
    ("Where is the refund for my order?", "Where is the refund on my order?"),
    ("What is a good gift for my aunt?", "What is a good gift to my aunt?"),
    ("Can I talk to a nurse?", "Can I talk with a nurse?"),
    ("What is the price of a ticket?", "What is the price for a ticket?"),
    ("How far is it to the harbour?", "How far is it from the harbour?"),
    ("How do I get from Leith to Perth?", "How do I get to Perth from Leith?"),
    ("How do I keep from shouting?", "How do I keep my dog from barking?"),
    ("How do I go to work?", "How do I start to work?"),
    ("Is it 5 to 9?", "Is it 5 from 9?"),
    # Chinese.
    ("怎么跟客服联系", "怎么和客服联系"),
    ("关于足球的书", "与足球有关的书"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_preposition_is_another_role(one: str, other: str) -> None:
    """Both ways round, and the valve asks for it."""
    for asked, stored in ((one, other), (other, one)):
        found = preposition(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.ORDER
        assert found.asked != found.stored
        assert difference(read(asked), read(stored)) is not None


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_prepositions_that_stand_for_each_other_do_not_differ(one: str, other: str) -> None:
    """Nor when asked the other way round."""
    assert preposition(read(one), read(other)) is None
    assert preposition(read(other), read(one)) is None


def test_long_texts_say_much_by_the_way() -> None:
    """In those the preposition is not looked at."""
    tale = "I am a baker and my oven is old, it hums and it leaks and it smells of smoke, "
    one = read(tale * 2 + "and I had a letter to the shop")
    other = read(tale * 2 + "and I had a letter from the shop")
    assert preposition(one, other) is None
