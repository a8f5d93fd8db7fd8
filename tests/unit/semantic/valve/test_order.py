"""Order: the same words in other roles."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.order import order
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    ("Can my neighbor park in front of my house?", "Can I park in front of my neighbor's house?"),
    ("我该不该原谅妈妈", "妈妈该不该原谅我"),
    (
        "What happens if my employee damages my laptop?",
        "What happens if I damage my employee's laptop?",
    ),
    ("Can my sister borrow my bike?", "Can I borrow my sister's bike?"),
    ("Can my doctor see my insurance?", "Can I see my doctor's insurance?"),
    ("Can I claim my parents as dependents?", "Can my parents claim me as a dependent?"),
    ("Can my landlord keep my deposit?", "Can I keep my landlord's deposit?"),
    (
        "Is my wife allowed to see my medical records?",
        "Am I allowed to see my wife's medical records?",
    ),
    ("Is my son entitled to my pension?", "Am I entitled to my son's pension?"),
    ("May your clients use our parking lot?", "May we use your clients' parking lot?"),
    ("Can you read my messages?", "Can I read your messages?"),
    ("My dog bit my neighbor, what now?", "My neighbor's dog bit me, what now?"),
    ("How do I get my teacher to like me?", "How do I get myself to like my teacher?"),
    ("What does my doctor need from me?", "What do I need from my doctor?"),
    ("Does my dad have to sign for me?", "Do I have to sign for my dad?"),
    ("How do I use a friend's car?", "How do I let a friend use my car?"),
    ("Can I see the grades of my child?", "Can my child see my grades?"),
    ("老婆能用我的卡吗", "我能用老婆的卡吗"),
    ("房东欠我什么", "我欠房东什么"),
    ("公司欠我工资怎么办", "我欠公司工资怎么办"),
    ("我的狗咬了邻居怎么办", "邻居的狗咬了我怎么办"),
    ("我爸可以领我的退休金吗", "我可以领我爸的退休金吗"),
    ("你能看到我的记录吗", "我能看到你的记录吗"),
    ("老师为什么不理我", "我为什么不理老师"),
    ("怎么让老板信任我", "怎么让我信任老板"),
    ("怎么向银行借钱", "怎么把钱借给银行"),
    ("怎么借钱给朋友", "怎么向朋友借钱"),
    ("怎么跟同事借充电器", "怎么把充电器借给同事"),
    ("怎么向朋友要钱", "怎么给朋友钱"),
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
    (
        "My cat scratched me, should I see a doctor?",
        "Should I see a doctor if my cat scratched me?",
    ),
    ("邻居砸了我的车怎么赔", "我的车被邻居砸了怎么赔"),
    ("Can my sister borrow my bike?", "Is my sister able to borrow my bike?"),
    ("Can I use my sister's bike?", "Am I able to use the bike of my sister?"),
    ("Can I add my wife to my policy?", "Can my wife be added to my policy?"),
    ("Did my bank charge me?", "Was I charged by my bank?"),
    ("How do I get my refund?", "How does my refund get to me?"),
    ("How do I get my cat to trust me?", "How can my cat learn to trust me?"),
    ("Do I need my landlord's permission?", "Does my landlord need to give me permission?"),
    ("I lost my card, can my bank replace it?", "Can my bank replace my card if I lost it?"),
    ("妹妹能开我的车吗", "我的车妹妹能开吗"),
    ("老板能看我的邮件吗", "我的邮件老板能看到吗"),
    ("我能用老婆的医保吗", "老婆的医保我能用吗"),
    ("我的账户被别人登录了", "别人登录了我的账户"),
    ("你就是我的快乐", "我的快乐就是你"),
    ("怎么向银行借钱", "怎么从银行借钱"),
    ("怎么向银行借钱", "银行怎么借钱给我"),
    ("怎么把钱借给朋友", "怎么借钱给朋友"),
    ("借款后多久打电话给我", "请问我借款后多久收到电话"),
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
