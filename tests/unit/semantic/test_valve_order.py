"""Order: the same words in other roles."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.order import order
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    ("How do I convert PNG to SVG?", "How do I convert SVG to PNG?"),
    ("Translate this from Dutch to Greek", "Translate this from Greek to Dutch"),
    ("Is tea better than coffee?", "Is coffee better than tea?"),
    ("Trains from Turin to Milan", "Trains from Milan to Turin"),
    ("How do I move from Oracle to MariaDB?", "What is the way to move from MariaDB to Oracle?"),
    ("Why did Spain attack Portugal?", "Why did Portugal attack Spain?"),
    ("Did Nora sue Ahmed?", "Did Ahmed sue Nora?"),
    ("Did Nora follow Ahmed?", "Was Nora followed by Ahmed?"),
    ("Can a horse eat pig feed?", "Can a pig eat horse feed?"),
    ("What is chocolate milk?", "What is milk chocolate?"),
    ("Should I paint before sanding?", "Should I sand before painting?"),
    ("Is gold denser than lead?", "Is lead denser than gold?"),
    ("Did the cat chase the mouse?", "Did the mouse chase the cat?"),
    ("Who is the teacher of Anna's sister?", "Who is the sister of Anna's teacher?"),
    ("Ship from New York to Los Angeles", "Ship from Los Angeles to New York"),
    ("Do I owe you money?", "Do you owe me money?"),
    # Chinese.
    ("怎么把图片转成文字", "怎么把文字转成图片"),
    ("从广州到成都的高铁", "从成都到广州的高铁"),
    ("广州飞成都的机票", "成都飞广州的机票"),
    ("黄金比白银重吗", "白银比黄金重吗"),
    ("小李给小王发了什么", "小王给小李发了什么"),
    ("猫为什么怕狗", "狗为什么怕猫"),
    ("英镑怎么换成日元", "日元怎么换成英镑"),
    ("兔子能吃羊草吗", "羊能吃兔子草吗"),
    ("老师喜欢怎样的家长", "家长喜欢怎样的老师"),
    ("我借给你多少", "你借给我多少"),
    ("法语翻译成德语", "德语翻译成法语"),
    ("由李明编剧、王刚导演的电影", "由王刚编剧、李明导演的电影"),
    ("谁打败了拿破仑", "拿破仑打败了谁"),
    ("他比我高吗", "我比他高吗"),
    ("A公司收购了B公司吗", "B公司收购了A公司吗"),
]

ALIKE = [
    ("What is the difference between tea and coffee?", "Difference between coffee and tea?"),
    ("Are cats and dogs friends?", "Are dogs and cats friends?"),
    ("Is Nora married to Ahmed?", "Is Ahmed married to Nora?"),
    ("Did Nora follow Ahmed?", "Was Ahmed followed by Nora?"),
    ("Who wrote the song?", "The song was written by whom?"),
    ("For a beginner, which camera is best?", "Which camera is best for a beginner?"),
    ("In Rust, how do I read a file?", "How do I read a file in Rust?"),
    ("What is the capital of Peru?", "Peru's capital is what?"),
    ("Tea vs coffee: which is healthier?", "Coffee vs tea: which is healthier?"),
    ("How do I install the app?", "How do you install the app?"),
    ("Is Rome in Italy?", "Is Rome in Italy"),
    ("Which is cheaper, gas or oil?", "Which is cheaper, oil or gas?"),
    ("When it rains, do bees fly?", "Do bees fly when it rains?"),
    ("Oslo is in which country?", "Which country is Oslo in?"),
    ("How far is Oslo from Bergen?", "How far is Bergen from Oslo?"),
    # Chinese.
    ("茶和咖啡有什么区别", "咖啡和茶有什么区别"),
    ("茶与咖啡哪个好", "咖啡与茶哪个好"),
    ("鸭肉怎么做", "怎么做鸭肉"),
    ("什么是光合作用", "光合作用是什么"),
    ("为什么海水是咸的", "海水为什么是咸的"),
    ("秘鲁的首都是哪里", "哪里是秘鲁的首都"),
    ("虾和柿子能一起吃吗", "柿子和虾能一起吃吗"),
    ("手机丢了怎么办", "怎么办手机丢了"),
    ("手机被偷了怎么办", "手机偷了怎么办"),
    ("苹果、梨和桃哪些含糖少", "桃、梨和苹果哪些含糖少"),
    ("李白和杜甫谁更有名", "杜甫和李白谁更有名"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_roles_differ(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = order(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.ORDER
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_another_order_with_the_same_roles_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert order(read(one), read(other)) is None
    assert order(read(other), read(one)) is None


def test_long_texts_cost_no_more_than_they_must() -> None:
    """Two texts of the same thousands of words, shuffled."""
    words = [f"word{number}" for number in range(3000)]
    assert order(read(" ".join(words)), read(" ".join(reversed(words)))) is None
