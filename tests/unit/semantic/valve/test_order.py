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
    ("Ann has 3 stamps and Bob has 5", "Ann has 5 stamps and Bob has 3"),
    ("Ann has 3 stamps, Bob has 5.", "Bob has 3 stamps, Ann has 5."),
    (
        "In May the fair was in Turin, later in Milan",
        "In May the fair was in Milan, later in Turin",
    ),
    ("Milan beat Turin in the final of 1990", "In the 1990 final Turin beat Milan by 2 goals"),
    ("Did Ann leave the team?", "Was Ann left by the team?"),
    ("Lea has 4 pens, Tim has 9 pens", "Lea has 9 pens, Tim has 4 pens"),
    ("Tim ran 4 km in May and Lea 9 km in June", "Tim ran 9 km in May and Lea 4 km in June"),
    ("Did Tom sue?", "Was Tom sued?"),
    ("Did Ann hire last year?", "Was Ann hired last year?"),
    (
        "If Ann and Bob marry, will her family come?",
        "If Ann and Bob marry, will Bob's family come?",
    ),
    ("How do I merge notes into drafts?", "How do I merge drafts into notes?"),
    ("What do I owe my tenant when I sell?", "What does my tenant owe me if the flat is sold?"),
    ("Can I call the nurse at night?", "Can the nurse call me at night?"),
    ("Which birds eat wasps?", "Which birds do wasps eat?"),
    ("Who followed Nora?", "Who did Nora follow?"),
    ("What causes rust?", "What does rust cause?"),
    # Chinese.
    ("什么鸟吃黄蜂", "黄蜂吃什么鸟"),
    ("什么虫子怕薄荷", "薄荷怕什么虫子"),
    ("这张专辑在日本发行，单曲在德国发行", "这张专辑在德国发行，单曲在日本发行"),
    ("张伟在2003年的决赛中击败了李强", "李强于2003年在决赛里击败张伟"),
    (
        "2016年初，议员赵磊被任命为市长，以接替已经辞职的市长孙悦",
        "2016年年初，议员孙悦被任命为市长，来接替刚刚辞职的市长赵磊",
    ),
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
    ("Bob has 5 stamps, Ann has 3 stamps", "Ann has 3 stamps and Bob has 5 stamps"),
    ("The fair was in Turin in May", "In May the fair was in Turin"),
    ("Milan beat Turin in 1990", "Turin was beaten by Milan in 1990"),
    ("Rust can be used to test Python code", "Python code can be tested with Rust"),
    ("Did the price rise last year?", "Was the price raised last year?"),
    (
        "If Ann and Bob marry, will Ann's family come?",
        "Will Ann's family come if Ann and Bob marry?",
    ),
    ("Milan is higher than Turin", "Turin is lower than Milan"),
    ("How do I merge cells A and B?", "How do I merge cells B and A?"),
    ("What do I pay my landlord?", "What do I have to pay my landlord each month?"),
    ("Can my doctor send me the results?", "Can I get the results sent to me by my doctor?"),
    ("What does the nurse need to give you?", "What do nurses give you?"),
    # Chinese.
    ("什么电脑支持这张卡", "这张卡支持什么电脑"),
    ("什么人适合跑步", "跑步适合什么人"),
    ("中国队好还是日本队好", "日本队好还是中国队好"),
    ("1990年，赵磊在北京与孙悦一起创办了这家公司", "这家公司由赵磊和孙悦1990年在北京一起创办"),
    (
        "成员有赵磊、孙悦和周涛，他们都来自北京的一所小学",
        "成员有周涛、孙悦和赵磊，都来自北京的一所小学",
    ),
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
    words = [f"Word{number}" for number in range(3000)]
    assert order(read(" ".join(words)), read(" ".join(reversed(words)))) is None
