"""Whatever two texts hold, the checks of wording answer, and the same both ways round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.valve.antonym import antonym
from stepwell.semantic.valve.modality import modality
from stepwell.semantic.valve.negation import negation
from stepwell.semantic.valve.order import order
from stepwell.semantic.valve.question import question
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.scope import scope
from stepwell.semantic.valve.valve import Check

CHECKS = (negation, antonym, modality, order, scope, question)

WORDS = st.sampled_from(
    "how why do does did is was can must should will have going not don't never "
    "without only all some or and the a from to before after "
    "cat dog milk open close up down increase decrease safe unsafe by was eaten eat , ? me you US "
    "怎么 为什么 会 能 可以 必须 应该 了 过 "
    "不 不是 没有 能不能 猫 狗 大 小 上 下 提高 降低 所有 只有 从 到 比 被 把 吗 孕妇 "
    "？".split()
)
TEXTS = (
    st.text(max_size=60)
    | st.lists(WORDS, max_size=12).map(" ".join)
    | st.lists(WORDS, max_size=12).map("".join)
)


@pytest.mark.parametrize("check", CHECKS)
@given(one=TEXTS, other=TEXTS)
def test_symmetric(check: Check, one: str, other: str) -> None:
    """What differs from another text, that text differs from."""
    there, back = check(read(one), read(other)), check(read(other), read(one))
    assert (there is None) == (back is None)
    if there is not None:
        assert there.asked != there.stored


@pytest.mark.parametrize("check", CHECKS)
@given(text=TEXTS)
def test_no_text_differs_from_itself(check: Check, text: str) -> None:
    """Read twice, nothing is shared."""
    assert check(read(text), read(text)) is None


@pytest.mark.parametrize("check", CHECKS)
@given(words=st.lists(WORDS, min_size=1, max_size=12))
def test_case_blanks_and_a_sign_at_the_end_change_nothing(check: Check, words: list[str]) -> None:
    """They are no wording."""
    text = " ".join(word for word in words if word not in {"US", "?", "？", ","})
    assert check(read(text), read(f"  {text.capitalize()}. ")) is None
