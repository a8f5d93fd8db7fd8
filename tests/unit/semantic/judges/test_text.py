"""The judge that compares letters."""

import pytest
from support.judges import Deaf

from stepwell.core.judging import Said, ToolCall
from stepwell.semantic.judges.text import TextJudge

LONG = "You can return them within 30 days, in the box they came in."


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Yes", "  yes. ", True),
        ("是。", "是", True),
        (LONG, LONG.upper().replace(" ", "\n"), True),
        ("yes", "no", False),
        ("positive", "negative", False),
        ("退款", "换货", False),
        ("42", "43", False),
        ("Paris", "It is Paris", None),
        ("not valid", "valid", None),
        (LONG, LONG.replace("30", "14"), None),
        (LONG, "no", None),
        ("", "no", None),
    ],
)
async def test_texts(one: str, other: str, expected: bool | None) -> None:  # noqa: FBT001
    """Equal but for case and blanks; short ones with no word in common; else it cannot tell."""
    judge = TextJudge()
    assert await judge.same("?", Said(one), Said(other), Deaf()) is expected
    assert await judge.same("?", Said(other), Said(one), Deaf()) is expected


A = ToolCall("search", '{"q":"shoes"}')
B = ToolCall("search", '{"q":"boots"}')
C = ToolCall("delete", '{"q":"shoes"}')


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((A, C), (C, A), True),
        ((A,), (B,), None),
        ((A,), (C,), False),
        ((A,), (A, A), False),
        ((A,), (), False),
    ],
)
async def test_tool_calls(
    one: tuple[ToolCall, ...],
    other: tuple[ToolCall, ...],
    expected: bool | None,  # noqa: FBT001
) -> None:
    """Other tools are a no; other arguments may come to the same."""
    assert await TextJudge().same("?", Said("", one), Said("", other), Deaf()) is expected
