"""Numbers, units and money: the same in other words, and not the same."""

from fractions import Fraction

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.number import number
from stepwell.semantic.valve.numerals import chinese, english
from stepwell.semantic.valve.reading import read

SAME = [
    ("20 mcg of zinc", "20 micrograms of zinc"),
    ("20 µg of zinc", "20 ug of zinc"),
    ("is 20μg of zinc enough", "is 20 mcg of zinc enough"),
    ("400 IU of vitamin E", "400 international units of vitamin E"),
    ("is 50 mbps fast", "Is 50 Mbps fast?"),
    ("is 50 mbps fast", "Is 50 MBps fast?"),
    ("Is 50 Mbps fast?", "Is 50 megabits per second fast?"),
    ("50 mb internet", "50 Mbps internet"),
    ("is 5 mw a lot", "Is 5 MW a lot?"),
    ("is 5 mw a lot", "Is 5 mW a lot?"),
    ("IS 5 MW A LOT?", "Is 5 mW a lot?"),
    ("Is 5 MW a lot?", "Is 5 megawatts a lot?"),
    ("Is 5 KG heavy?", "Is 5 kg heavy?"),
    ("Is 100MG enough?", "Is 100mg enough?"),
    ("A battery of 5 Ah", "a battery of 5 amp hours"),
    ("20微克锌", "20mcg锌"),
    ("400国际单位", "400IU"),
    ("300千帕", "300kPa"),
    ("一小时能到吗", "一个钟头能到吗"),
    ("ready in an hour and a half", "ready in one and a half hours"),
    ("ready in an hour and a half", "ready in 1.5 hours"),
    ("ready in an hour and a half", "ready in 90 minutes"),
    ("ready in half an hour", "ready in 30 minutes"),
    ("two and a half cups of rice", "2.5 cups of rice"),
    ("two cups and a half", "two and a half cups"),
    ("take a pill and a half", "take 1.5 pills"),
    ("wait a year and a half", "wait 18 months"),
    ("half of a page", "half a page"),
    ("一个半小时", "1.5小时"),
    ("一个半小时", "90分钟"),
    ("一个半小时", "一个半钟头"),
    ("一小时半", "1个半小时"),
    ("半小时能学会吗", "30分钟能学会吗"),
    ("一年半", "18个月"),
    ("两片半", "2.5片"),
    ("一斤半", "1.5斤"),
    ("第一天半夜", "第一天的半夜"),
    ("第二杯半价", "第2杯半价"),
    ("play radio one", "play radio 1"),
    ("2 birds and 6 storks sat down", "6 storks and 2 birds sat down"),
    ("有300头黑牛和450头白牛", "有450头白牛和300头黑牛"),
    ("Name fifteen rivers", "Name 15 rivers"),
    ("twenty-one questions", "21 questions"),
    ("a hundred and five steps", "105 steps"),
    ("two dozen eggs", "24 eggs"),
    ("1,000 users", "1000 users"),
    ("1.000,5 kg", "1000.5 kg"),
    ("two thirds of the class", "2/3 of the class"),
    ("half an hour of sleep", "1/2 hour of sleep"),
    ("1½ cups of rice", "1.5 cups of rice"),
    ("5k followers", "5,000 followers"),
    ("3 million people", "3,000,000 people"),
    ("a run of 3 km", "a run of 3 kilometres"),
    ("run 5km", "run 5 km"),
    ("a 5-year-old child", "a child aged 5"),
    ("a five-year-old child", "a child who is 5 years old"),
    ("costs $5", "costs 5 dollars"),
    ("5 USD", "US$5"),
    ("a raise of 5%", "a raise of five percent"),
    ("5 per cent", "5 percent"),
    ("the third chapter", "the 3rd chapter"),
    ("World War II", "World War 2"),
    ("iphone15 price", "iphone 15 price"),
    ("COVID-19 rules", "covid 19 rules"),
    ("Is v2 out?", "Is version 2 out?"),
    ("-5 degrees", "minus 5 degrees"),
    ("3-4 days", "3 to 4 days"),
    ("Give me an example", "Give me 1 example"),
    ("Which one is best?", "Which is best?"),
    ("one of my friends", "a friend of mine"),
    ("the first name on a form", "the given name on a form"),
    ("What should I read first?", "What should I read?"),
    ("a pair of socks", "two socks"),
    ("3 apples and 2 pears", "2 pears and 3 apples"),
    ("1) Who? 2) Why?", "Who? Why?"),
    ("Compare Galaxy 5 with Pixel 4", "Compare Pixel 4 with Galaxy 5"),
    ("How many kilometres is that?", "How far is that in kilometers?"),
    ("十五个苹果", "15个苹果"),
    ("一百二十元", "120元"),
    ("两万三", "23000"),
    ("1万人", "一万人"),
    ("1.2亿", "120000000"),
    ("三分之一", "1/3"),
    ("百分之五", "5%"),
    ("第三章", "第3章"),
    ("第一次出国", "首次出国"),
    ("五公斤大米", "5千克大米"),
    ("３公里", "3千米"),
    ("5美元", "5美金"),
    ("5块钱", "5元"),
    ("零下五度", "-5度"),
    ("一起去吧", "去吧"),
    ("百度怎么用", "怎么用百度"),
    ("我十分喜欢", "我很喜欢"),
    ("千万别去", "别去"),
    ("一万块一年多少利息", "1万一年多少利息"),
    ("一点五乘四", "1.5乘4"),
    ("五公里", "5 km"),
    ("两本書", "两本书"),
    ("Is marriage worth it these days?", "Is marriage worth it this year?"),
    ("Is 5MB enough?", "Is 5 mb enough?"),
    ("How many kilos is a goat?", "How many kg is a goat?"),
    ("一公斤核桃多少钱", "一千克核桃多少钱"),
]

OTHER = [
    ("20 mcg of zinc", "20 mg of zinc"),
    ("20 µg of zinc", "20 mg of zinc"),
    ("20 ug of zinc", "20 g of zinc"),
    ("400 IU of vitamin E", "400 mg of vitamin E"),
    ("Is a 5 mW lamp bright?", "Is a 5 MW lamp bright?"),
    ("Is a 5mV signal weak?", "Is a 5MV signal weak?"),
    ("Is 50 Mbps fast?", "Is 50 MBps fast?"),
    ("Is 50 mbps fast?", "Is 50 MBps fast?"),
    ("50 kbps internet", "50 Mbps internet"),
    ("30 ns", "30 µs"),
    ("300 kPa", "300 MPa"),
    ("80 µm thick", "80 nm thick"),
    ("15 Hz", "15 kHz"),
    ("Is 10 mA safe?", "Is 10 A safe?"),
    ("5 mmol/L of glucose", "5 mg/dL of glucose"),
    ("Is 5 mg the same as 5 mcg?", "Is 5 mg the same as 5 g?"),
    ("how many mcg is that", "how many mg is that"),
    ("20微克锌", "20毫克锌"),
    ("30纳秒", "30微秒"),
    ("5毫瓦", "5兆瓦"),
    ("15千赫", "15赫兹"),
    ("两勺糖", "两克糖"),
    ("一丈有多长", "一尺有多长"),
    ("half an hour of rest", "an hour and a half of rest"),
    ("half a pill", "a pill and a half"),
    ("half a page", "one and a half pages"),
    ("two hours and a half", "two hours"),
    ("three and a quarter inches", "a quarter of an inch"),
    ("half a mile a day", "a mile and a half a day"),
    ("半小时能学会吗", "一个半小时能学会吗"),
    ("半个月", "一个半月"),
    ("吃半片药", "吃一片半药"),
    ("半斤够吗", "一斤半够吗"),
    ("两个半小时", "两个小时"),
    ("吃半个苹果", "吃一个半苹果"),
    ("play radio one", "play radio"),
    ("2 birds and 6 storks sat down", "6 birds and 2 storks sat down"),
    ("有300头黑牛和450头白牛", "有300头白牛和450头黑牛"),
    ("有300头黑牛和450头白牛", "有450头黑牛和300头白牛"),
    ("Name fifteen rivers", "Name fifty rivers"),
    ("a run of 3 km", "a run of 3 miles"),
    ("Convert 5 km to miles", "Convert 5 km to metres"),
    ("costs $5", "costs €5"),
    ("grow by 5%", "grow by 5"),
    ("Where is order 4411-QZ?", "Where is order 4412-QZ?"),
    ("Python 3.1", "Python 3.10"),
    ("Python 3.11", "Python 3.12"),
    ("order 007", "order 7"),
    ("top 10 films", "best films"),
    ("the second chapter", "the third chapter"),
    ("3 chapters", "the 3rd chapter"),
    ("two examples", "three examples"),
    ("two examples", "an example"),
    ("5 million", "5 billion"),
    ("-5 degrees", "5 degrees"),
    ("What is 5+3?", "What is 5*3?"),
    ("3 apples and 2 pears", "2 apples and 3 pears"),
    ("Compare Galaxy 5 with Pixel 4", "Compare Galaxy 4 with Pixel 5"),
    ("from 5 to 9", "from 9 to 5"),
    ("a 7B model", "a 13B model"),
    ("iphone15 price", "iphone14 price"),
    ("twice a week", "three times a week"),
    ("half the dose", "a third of the dose"),
    ("十五个苹果", "五十个苹果"),
    ("第三章", "第四章"),
    ("第三个月", "三个月"),
    ("三公里", "三英里"),
    ("5美元", "5欧元"),
    ("三分之一", "三分之二"),
    ("1万人", "1亿人"),
    ("两次", "三次"),
    ("5公斤", "5斤"),
    ("四加五", "四乘五"),
    ("借一万一天的利息", "借一万一个月的利息"),
    ("How much does one week cost?", "How much does one month cost?"),
    ("How many MB is a song?", "How many Mb is a song?"),
    ("Is 20 MB/s fast?", "Is 20 Mb/s fast?"),
    ("How many kg is a goat?", "How many lb is a goat?"),
    ("How many mg are in a dose?", "How many ml are in a dose?"),
    ("一斤核桃多少钱", "一公斤核桃多少钱"),
    ("每平方米租金多少", "每亩租金多少"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(one: str, other: str) -> None:
    """The same number in other words is no difference."""
    assert number(read(one), read(other)) is None
    assert number(read(other), read(one)) is None


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other(one: str, other: str) -> None:
    """Another number, unit, order or sign is one, whichever text was asked."""
    found, turned = number(read(one), read(other)), number(read(other), read(one))
    assert found is not None
    assert found.kind is Kind.NUMBER
    assert turned is not None
    assert {turned.asked, turned.stored} == {found.asked, found.stored}


def test_says_what_differs() -> None:
    """The difference names both sides, and is empty where nothing corresponds."""
    assert str(number(read("3 km"), read("3 miles"))) == "number 3 km != 3 mile"
    assert str(number(read("top ten films"), read("best films"))) == "number 10 != none"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("seven", 7),
        ("hundred", 100),
        ("three million two hundred thousand", 3_200_000),
        ("nineteen eighty four", 1984),
        ("two thousand twelve", 2012),
        ("twenty one", 21),
    ],
)
def test_english_numerals(words: str, value: int) -> None:
    assert english(words.split()) == value


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("十", 10),
        ("二十一", 21),
        ("三千零五", 3005),
        ("一百五", 150),
        ("一百零五", 105),
        ("3万5千", 35_000),
        ("二〇二四", 2024),
        ("一亿两千万", 120_000_000),
        ("1.5万", 15_000),
    ],
)
def test_chinese_numerals(numeral: str, value: int) -> None:
    assert chinese(numeral) == Fraction(value)
