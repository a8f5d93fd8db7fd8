"""What a question asks for: who does it, or to whom it is done."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.inquired import inquired
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    ("What eats newts?", "What do newts eat?"),
    ("Who beat Norway?", "Who did Norway beat?"),
    ("What can cause cramps?", "What can cramps cause?"),
    ("What leads to erosion?", "What does erosion lead to?"),
    ("什么导致肥胖", "肥胖会导致什么"),
    ("肥胖由什么引起", "肥胖会引起什么"),
]

ALIKE = [
    ("What causes cramps?", "What are cramps caused by?"),
    ("What does osmosis mean?", "What means osmosis?"),
    ("What do newts eat?", "What can newts eat?"),
    ("What is the colour of newts?", "What colour do newts have?"),
    ("什么导致失眠", "失眠是什么导致的"),
    ("失眠的原因", "什么导致失眠"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_doer_and_object_are_not_the_same(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = inquired(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.ORDER
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_in_other_words_passes(one: str, other: str) -> None:
    """Nor when asked the other way round."""
    assert inquired(read(one), read(other)) is None
    assert inquired(read(other), read(one)) is None
