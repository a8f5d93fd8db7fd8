"""A thing, and something of it."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.scope import scope

OTHER = [
    ("How do I delete my account?", "How do I delete my account history?"),
    ("How do I reset my router?", "How do I reset my router password?"),
    ("Where is my order?", "Where is my order number?"),
    ("How do I block a contact?", "How do I block a contact request?"),
    ("Where do I find the invoice?", "Where do I find the invoice template?"),
    ("怎么删除我的账号？", "怎么删除我的账号记录？"),
]
SAME = [
    ("How do I open an Excel file?", "How do I open an Excel?"),
    ("How do I update my Android phone?", "How do I update my Android?"),
    ("How do I delete my account?", "How do I delete my account now?"),
    ("What does an ostrich eat?", "what does the ostrich eat"),
    ("怎么登录我的微信账号？", "怎么登录我的微信？"),
]


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_something_of_a_thing_is_another_thing(one: str, other: str) -> None:
    """Whichever was asked."""
    for asked, stored in ((one, other), (other, one)):
        found = scope(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.SCOPE


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_a_thing_is_may_be_left_out(one: str, other: str) -> None:
    for asked, stored in ((one, other), (other, one)):
        assert scope(read(asked), read(stored)) is None
