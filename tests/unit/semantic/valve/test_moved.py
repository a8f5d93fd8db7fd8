"""Moved: a word that stands among other words in a long Chinese sentence."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.moved import moved
from stepwell.semantic.valve.order import order
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    (
        "他在都灵长大并学习绘画，二十岁时随全家搬到热那亚开店。",
        "他在热那亚长大并学习绘画，二十岁时跟全家搬到都灵开店。",
    ),
    (
        "这座桥由石匠设计，后来木匠负责修复并重新刷漆。",
        "这座桥由木匠设计，之后石匠负责修复，又重新刷了漆。",
    ),
    (
        "学校的旧图书馆保存古籍和地图，新体育馆展出照片与模型。",
        "学校的旧图书馆保存照片和地图，新体育馆展出古籍与模型。",
    ),
]

ALIKE = [
    (
        "在学校放假期间，图书馆每天上午对所有居民免费开放。",
        "图书馆每天上午对所有居民免费开放，在学校放假期间。",
    ),
    (
        "他长期住在都灵教授绘画，退休以后回到家乡开了书店。",
        "退休以后他回到家乡开了书店，长期住在都灵教授绘画。",
    ),
    (
        "展览在市立博物馆举行，门票可以在入口或者网站购买。",
        "展览举行地点是市立博物馆，门票在网站或者入口可以购买。",
    ),
    (
        "面包师，每天清晨在广场旁边的店里烤新鲜面包。",
        "每天清晨，面包师在广场旁边的店里烤新鲜面包。",
    ),
    ("玫瑰发黄了，怎么修剪", "怎么修剪，玫瑰发黄了"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_a_word_among_others_differs(one: str, other: str) -> None:
    """Both ways round, and as an order."""
    for asked, stored in ((one, other), (other, one)):
        assert moved(read(asked), read(stored)) is not None
        found = order(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.ORDER
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_moves_with_its_words_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert order(read(one), read(other)) is None
    assert order(read(other), read(one)) is None


def test_english_is_left_alone() -> None:
    """There a long text with its clauses cut elsewhere is mostly the same text."""
    one = "Born and raised in Turin by painters, he moved to Genoa and opened a small shop."
    other = "Born and raised by painters, he opened a small shop, which was in Genoa, not Turin."
    assert moved(read(one), read(one)) is None
    assert order(read(one), read(other)) is None


def test_long_texts_cost_no_more_than_they_must() -> None:
    """Hundreds of clauses, turned round."""
    clauses = [f"第{number}座桥跨过河流通往村庄" for number in range(300)]
    assert order(read("，".join(clauses)), read("，".join(reversed(clauses)))) is None
