"""The valve as a whole: laws of all its checks, and how it handles quotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import difference, differences

WORDS = st.sampled_from(
    (
        "what is the price of 5 km 5km 1,000 3.11 $5 % ½ five hundred half "
        "third May 1 2024 7pm 19:00 Monday today last week q3 90s US us France "
        "French Python C++ --force /etc a@b.org iPhone15 “ETA” 'x' `code` ``` "
        "not 十五 个 第三 百分之 五 万 年 月 日 2024年5月 "
        "周一 下午 三点 半 今天 北京 法语 臺灣 3/0 00 1-2-3 "
        "12:99 99/99/9999 -5 + × ² ① ٣ 零 亿亿 点 \ud800 \x00"
    ).split()
)
TEXTS = st.text(st.characters(), max_size=80) | st.lists(WORDS, max_size=14).map(" ".join)
JOINED = st.lists(WORDS, max_size=14).map("".join)


@given(TEXTS | JOINED)
def test_nothing_differs_from_itself(text: str) -> None:
    """A text has no difference from itself, read twice."""
    assert difference(read(text), read(text)) is None


@given(TEXTS | JOINED, TEXTS | JOINED)
def test_symmetry(one: str, other: str) -> None:
    """Whichever text was asked, the same kinds differ."""
    there = [found.kind for found in differences(read(one), read(other))]
    back = [found.kind for found in differences(read(other), read(one))]
    assert there == back


def test_quotations_are_opened() -> None:
    """What only one text quotes is compared as if it were not quoted."""
    assert difference(read('When is "Christmas 2024"?'), read("When is Christmas 2024?")) is None
    assert difference(read('Is "5 km" far?'), read("Is 5 km far?")) is None


def test_equal_quotations_stay_shut() -> None:
    """What both quote is the same; only what stands around it is compared."""
    found = difference(read('Send "5 km" to 3 people'), read('Send "5 km" to 4 people'))
    assert found is not None
    assert (found.kind, found.asked, found.stored) == (Kind.NUMBER, "3", "4")


@pytest.mark.parametrize(
    "text",
    [
        "1" * 100_000,
        "一" * 100_000,
        "亿万" * 50_000,
        "hundred " * 12_000,
        '"a" ' * 25_000,
        "1/" * 50_000,
    ],
)
def test_long_texts(text: str) -> None:
    """A hundred thousand characters are no trouble; the beginning is compared."""
    assert difference(read(text), read(text + " and more")) is None
    assert difference(read("3 " + text), read("4 " + text)) is not None


def test_kinds_in_order() -> None:
    """All kinds are found; the first is the one the trail names."""
    asked = read('In 2010, say "a" to 3 people in Paris')
    stored = read('In 2011, say "b" to 4 people in Rome')
    kinds = [found.kind for found in differences(asked, stored)]
    assert kinds == [Kind.LITERAL, Kind.NUMBER, Kind.DATE, Kind.ENTITY]
