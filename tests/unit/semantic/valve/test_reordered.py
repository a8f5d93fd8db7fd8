"""The same Chinese words in another order."""

import pytest

from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.reordered import is_reordered


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("怎么重置密码？", "密码怎么重置？"),
        ("怎么申请学生公寓", "学生公寓怎么申请的呢？"),
        ("Excel怎么求和", "怎么用excel求和"),
    ],
)
def test_reordered(one: str, other: str) -> None:
    """Particles and signs do not count, nor how the words are cut."""
    assert is_reordered(read(one), read(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("怎么重置密码？", "怎么修改密码？"),
        ("怎么重置密码？", "怎么重置密码和密码？"),
        ("Can dogs chase cats?", "Can cats chase dogs?"),
        ("怎么重置密码？" * 5, "密码怎么重置？" * 5),
    ],
)
def test_not_only_reordered(one: str, other: str) -> None:
    """Other words, more of them, another language, long texts."""
    assert not is_reordered(read(one), read(other))
