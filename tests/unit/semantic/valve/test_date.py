"""Dates, times and periods: the same in other words, and not the same."""

import pytest

from stepwell.semantic.valve.date import date
from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.number import number
from stepwell.semantic.valve.reading import read

SAME = [
    ("on 2024-05-01", "on May 1st, 2024"),
    ("1 May 2024", "May 1, 2024"),
    ("5/1/2024", "2024-05-01"),
    ("13/1/2024", "January 13 2024"),
    ("6feb", "6th of February"),
    ("meet at 7pm", "meet at 19:00"),
    ("meet at 7 p.m.", "meet at 7:00 PM"),
    ("3pm tomorrow", "3 o'clock tomorrow afternoon"),
    ("at seven this evening", "at 7pm"),
    ("half past three", "3:30"),
    ("at noon", "at 12:00"),
    ("wake me at three am", "wake me at 3 a.m."),
    ("at five thirty pm", "at 5:30 PM"),
    ("tomorrow morning at seven", "tomorrow at seven am"),
    ("call me tomorrow morning at 7am", "call me tomorrow at 7am"),
    ("明早的天气", "明天早上的天气"),
    ("the 1990s", "the 90's"),
    ("from 2001 to 2005", "2001-2005"),
    ("season 1973-74", "season 1973-1974"),
    ("nineteen eighty-four", "in 1984"),
    ("on Mon", "on Monday"),
    ("Q3 results", "third quarter results"),
    ("last night", "yesterday evening"),
    ("a daily walk", "a walk every day"),
    ("I may go", "I might go"),
    ("march on", "go on"),
    ("2,000 calories", "2000 calories"),
    ("wake up early in the morning", "wake up early"),
    ("2024年5月1日", "2024年五月1号"),
    ("二〇二四年", "2024年"),
    ("周一开会", "星期一开会"),
    ("禮拜一開會", "周一开会"),
    ("晚上7点", "19:00"),
    ("下午三点半", "15:30"),
    ("上个月", "上月"),
    ("20 世纪 70 年代", "二十世纪七十年代"),
    ("6月23日", "六月23"),
    ("去年的账单", "去年账单"),
    ("现在几点", "几点了"),
    ("夏天吃什么冬天吃什么", "冬天吃什么夏天吃什么"),
]

OTHER = [
    ("on 2024-05-01", "on 2024-05-02"),
    ("May 1", "June 1"),
    ("in May", "in March"),
    ("on Monday", "on Tuesday"),
    ("meet at 7am", "meet at 7pm"),
    ("7pm", "8pm"),
    ("today", "tomorrow"),
    ("next week", "last week"),
    ("wake me at three am", "wake me at three pm"),
    ("wake me at three a.m.", "wake me at three p.m."),
    ("wake me for six am", "wake me for nine pm"),
    ("the forecast for tomorrow", "the forecast for tomorrow morning"),
    ("trains on Monday", "trains on Monday evening"),
    ("明天下雨吗", "明天早上下雨吗"),
    ("in 2010", "in 2011"),
    ("in 2010", "before 2010"),
    ("since 2010", "until 2010"),
    ("from 2001 to 2005", "from 2005 to 2001"),
    ("Who won in 2010?", "Who won?"),
    ("the 1980s", "the 1990s"),
    ("in summer", "in winter"),
    ("Q1 results", "Q2 results"),
    ("a daily walk", "a weekly walk"),
    ("500 BC", "500 AD"),
    ("Monday to Friday", "Friday to Monday"),
    ("on weekdays", "at the weekend"),
    ("周一开会", "周三开会"),
    ("2023年的奖金", "2024年的奖金"),
    ("上个月", "下个月"),
    ("今年放假安排", "明年放假安排"),
    ("早上7点", "晚上7点"),
    ("5月1日", "5月2日"),
    ("第一季度", "第二季度"),
    ("2010年以前", "2010年以后"),
    ("农历五月初五", "阳历五月初五"),
    ("90年代", "80年代"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(one: str, other: str) -> None:
    """The same time in other words is no difference, nor is what is left of it one of numbers."""
    for left, right in ((one, other), (other, one)):
        assert date(read(left), read(right)) is None
        assert number(read(left), read(right)) is None


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other(one: str, other: str) -> None:
    """Another time is a difference, whichever text was asked."""
    found, turned = date(read(one), read(other)), date(read(other), read(one))
    assert found is not None
    assert found.kind is Kind.DATE
    assert turned is not None
    assert (turned.asked, turned.stored) == (found.stored, found.asked)


def test_says_what_differs() -> None:
    """The difference names both sides."""
    assert str(date(read("in 2010"), read("in 2011"))) == "date year 2010 != year 2011"
    assert str(date(read("on Monday"), read("soon"))) == "date weekday 1 != none"


def test_a_statement_may_leave_the_part_of_the_day_out() -> None:
    """It is told by the way there, and asked for in a question."""
    told = "The shop opened on Monday.", "The shop opened on Monday morning."
    assert date(read(told[0]), read(told[1])) is None
