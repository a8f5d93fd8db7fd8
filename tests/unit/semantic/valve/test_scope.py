"""Scope: of which, and of how many, something is asked."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.scope import scope

DIFFERENT = [
    ("Do all snakes lay eggs?", "Do some of the snakes lay eggs?"),
    ("Do all snakes lay eggs?", "Do any snakes lay eggs?"),
    ("Do all snakes lay eggs?", "Do most of the snakes lay eggs?"),
    ("How do I delete all emails?", "How do I delete a single email?"),
    ("Which shops are open?", "Which shops are open only on Mondays?"),
    ("Print every page", "Print every page except the cover"),
    ("Can I take both pills?", "Can I take either pill?"),
    ("Is it always cold in Oslo?", "Is it sometimes cold in Oslo?"),
    ("Name cities with at least a million people", "Name cities with at most a million people"),
    ("Is he a doctor?", "Did he use to be a doctor?"),
    ("Can I take A or B?", "Can I take A and B together?"),
    ("What is a good bicycle?", "What is a good bicycle for children?"),
    ("Is ginger safe?", "Is ginger safe during pregnancy?"),
    ("How do I read a file?", "How do I read a file in Haskell?"),
    ("What does a lawyer cost?", "What does a lawyer cost in Zurich?"),
    ("Is this film for children?", "Is this film for adults?"),
    ("What vaccines does a puppy need?", "What vaccines does a kitten need?"),
    ("What should vegans eat?", "What should students eat?"),
    ("Who was the former coach of the team?", "Who is the coach of the team?"),
    ("Who was the previous mayor?", "Who is the current mayor?"),
    ("What is the next stop of the bus?", "What is the stop of the bus?"),
    ("What is the predicted number of ducks?", "What is the number of ducks?"),
    ("Who is the vice-captain of the team?", "Who is the captain of the team?"),
    ("Who is the deputy head of the bank?", "Who is the head of the bank?"),
    ("What was the ship originally called?", "What is the ship called?"),
    ("Book a boat for noon", "Book a boat to the island for noon"),
    ("Dim the lamp in the attic", "Dim the lamp in the cellar"),
    ("Turn on the porch lights", "Turn on the lights"),
    ("How do I get there by tram?", "How do I get there by boat?"),
    ("How do I wash ink from silk?", "How do I wash ink from denim?"),
    ("Which hens laid at least two eggs?", "Which hens laid exactly two eggs?"),
    ("What does the guide cost per day?", "What does the guide cost in total?"),
    ("Do all bats bite?", "Are there bats that bite?"),
    ("Can I return this?", "Can I return this if the seal is broken?"),
    ("Can I return this?", "If the seal is broken, can I return this?"),
    ("How do I reset my watch?", "How do I reset my watch when the dial is stuck?"),
    ("Can I get a licence?", "Can I get a licence with a criminal record?"),
    ("How do I wire money?", "How do I wire money as a company?"),
    ("Is the zoo open?", "Is the zoo open on public holidays?"),
    ("动物园开门吗", "动物园周末开门吗"),
    ("可以退货吗", "如果拆了封条可以退货吗"),
    ("能吃螃蟹吗", "发烧的时候能吃螃蟹吗"),
    ("How do I mute a channel?", "How do I mute all channels?"),
    ("How do I archive a note in Evernote?", "How do I archive every one of my notes in Evernote?"),
    ("Name a lake in Sweden", "Name the lakes in Sweden"),
    ("Give me one cause of rust", "Please give me the causes of rust"),
    ("Explain tides", "Explain tides in one sentence"),
    ("Explain tides", "In one sentence, explain tides"),
    ("解释潮汐", "用一句话解释潮汐"),
    # Chinese.
    ("哪些母鸡至少下了两个蛋", "哪些母鸡只下了两个蛋"),
    ("哪些母鸡最多下了两个蛋", "哪些母鸡正好下了两个蛋"),
    ("导游每天多少钱", "导游总共多少钱"),
    ("所有蝙蝠都会咬人吗", "有蝙蝠会咬人吗"),
    ("工会副主席是谁", "工会主席是谁"),
    ("前任校长是谁", "现任校长是谁"),
    ("护士以前的职责是什么", "护士现在的职责是什么"),
    ("前总统住在哪里", "总统住在哪里"),
    ("怎么导出所有聊天记录", "怎么导出部分聊天记录"),
    ("怎么删除全部照片", "怎么删除一个照片"),
    ("哪些城市有地铁", "哪些城市只有地铁"),
    ("列出所有行星", "列出除了地球的行星"),
    ("他总是迟到吗", "他有时迟到吗"),
    ("至少要交多少押金", "至多要交多少押金"),
    ("他是歌手吗", "他曾经是歌手吗"),
    ("发烧吃什么药", "孕妇发烧吃什么药"),
    ("儿童能坐前排吗", "老人能坐前排吗"),
    ("小狗要打哪些疫苗", "小猫要打哪些疫苗"),
]

ALIKE = [
    ("Which birds migrate in the fall?", "Which birds migrate in autumn?"),
    ("How do I delete all emails?", "How do I delete every email?"),
    ("How do I mute channels?", "How do I mute all channels?"),
    ("How do I mute a channel?", "How can I mute one channel?"),
    ("Give me a list of causes of rust", "List the causes of rust"),
    ("What is the most expensive city?", "Which city is the most expensive?"),
    ("Which city is the priciest of all?", "Which city is the priciest?"),
    ("How do I cook rice?", "How can I cook rice at home?"),
    ("What is the tallest tower in the world?", "What is the tallest tower?"),
    ("How often should I water a cactus?", "How frequently should I water a cactus?"),
    ("Is yoga good for kids?", "Is yoga good for a child?"),
    ("What's a calorie?", "What exactly is a calorie in simple words?"),
    ("Can I pay by card or cash?", "Do you take cards and cash?"),
    ("Recommend some books", "Recommend a few books"),
    ("How do I fix this today?", "How do I fix this?"),
    ("What exactly is osmosis?", "What is osmosis, at least in short?"),
    ("How many cups a day?", "How many cups per day?"),
    ("How do I return this?", "How do I return this if I want to?"),
    ("How do I reset my code?", "How do I reset my code if I forgot it?"),
    ("If I want to move abroad, what do I do?", "What do I do to move abroad?"),
    ("Is tea healthy?", "I want to know if tea is healthy"),
    ("When is the zoo open?", "Is the zoo open?"),
    ("怎么退货", "如果想退货怎么退货"),
    # Chinese.
    ("蝙蝠会咬人吗", "有的蝙蝠会咬人吗"),
    ("一共多少钱", "总共多少钱"),
    ("怎么导出所有聊天记录", "怎么导出全部聊天记录"),
    ("每天喝多少水", "一天喝多少水合适"),
    ("一只猫能活多久", "猫能活多久"),
    ("小孩发烧怎么办", "孩子发烧怎么办"),
    ("最贵的城市是哪个", "哪个城市最贵"),
    ("怎么做米饭", "在家怎么做米饭"),
    ("Give me only the names", "Give me just the names"),
    ("宝宝几岁吃盐", "小孩几岁吃盐"),
    ("Who is the current mayor of Oslo?", "Who is the mayor of Oslo?"),
    ("现任校长是谁", "校长是谁"),
    ("Who is the president of the club?", "Who is the club's president?"),
    ("Is the certificate original?", "How do I know the certificate is the original?"),
    ("What should I see next week?", "What should I see the week after this one?"),
    ("Dim the lamp a bit", "Please dim the lamp now"),
    (
        "Which parking permit do I need for my street?",
        "Which parking permit do I need for my road?",
    ),
    ("I want to cancel my order", "I want to cancel my pending order"),
    ("The previous version is faster.", "The version is faster."),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_scope_differs(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = scope(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.SCOPE
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_scope_in_other_words_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert scope(read(one), read(other)) is None
    assert scope(read(other), read(one)) is None
