"""Qualifier: a quality that one text names and the other does not."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.qualifier import qualifier
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import difference

DIFFERENT = [
    ("Write a poem about fog", "Write a rhyming poem about fog"),
    ("Plan a week in Norway", "Plan a vegan week in Norway"),
    ("Which pump do I need for a pond?", "Which submersible pump do I need for a pond?"),
    ("How do I clean a carpet?", "How do I clean a silk carpet?"),
    ("写一封请假邮件", "写一封正式请假邮件"),
    ("平板怎么录音", "平板怎么远程录音"),
]
ALIKE = [
    ("How do I clean a carpet?", "How do I really clean a carpet?"),
    ("What is the way to clean carpets?", "What is the best way to clean carpets?"),
    ("How do I open an Excel?", "How do I open an Excel file?"),
    ("Who wrote the play?", "Who wrote the famous play?"),
    ("How do I clean a carpet?", "How can I get a silk carpet clean?"),
    ("平板怎么录音", "平板到底怎么录音"),
    ("平板怎么录音", "平板怎么录音啊"),
    ("一只猫能活多久", "猫能活多久"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_quality(one: str, other: str) -> None:
    """It is found whichever text was asked, and by the whole valve."""
    assert qualifier(read(one), read(other)) is not None
    found = difference(read(other), read(one))
    assert found is not None
    assert found.kind is Kind.SCOPE


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_may_be_left_out(one: str, other: str) -> None:
    """What goes without saying, what a thing is, and what was worded anew is none."""
    assert qualifier(read(one), read(other)) is None
    assert qualifier(read(other), read(one)) is None
