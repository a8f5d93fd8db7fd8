"""Modality: whether a thing may, must or should be done; whether it was, is or will be."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.modality import modality
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    # May, must, should.
    ("Can I pay rent by card?", "Do I have to pay rent by card?"),
    ("Must I rinse the lentils?", "Should I rinse the lentils?"),
    ("Am I allowed to keep bees here?", "Am I required to keep bees here?"),
    ("Can tenants paint the walls?", "Must tenants paint the walls?"),
    ("May I leave early?", "Should I leave early?"),
    ("Is a life jacket allowed on the ferry?", "Is a life jacket mandatory on the ferry?"),
    ("Is it possible to hire a guide?", "Is it necessary to hire a guide?"),
    ("What can I wear in the lab?", "What must I wear in the lab?"),
    ("Who can attend the hearing?", "Who has to attend the hearing?"),
    ("Which forms may guests sign?", "Which forms do guests need to sign?"),
    ("What papers can I show at the border?", "What papers do I have to show at the border?"),
    ("Can guests smoke without a permit?", "Must guests smoke without a permit?"),
    ("Is it legal to camp here?", "Is it compulsory to camp here?"),
    ("How many people saw the film?", "How many people will see the film?"),
    ("Could you tell me if I can prune it?", "Could you tell me if I have to prune it?"),
    ("I live in Oslo. Can I vote by post?", "I live in Oslo. Must I vote by post?"),
    ("If it rains can I cancel?", "If it rains do I have to cancel?"),
    # Did, is, will, might.
    ("Did the ferry stop running?", "Will the ferry stop running?"),
    ("Is the bakery going to close?", "Did the bakery close?"),
    ("Is Turin the capital of Italy?", "Was Turin the capital of Italy?"),
    ("Did Milan win the cup?", "Could Milan have won the cup?"),
    ("Which towns has the river flooded?", "Which towns will the river flood?"),
    ("Who won the cup?", "Who will win the cup?"),
    ("Did I return the book?", "Should I return the book?"),
    ("Does the shop make a profit?", "Did the shop make a profit?"),
    # What may have changed.
    ("Who is the mayor of Turin?", "Who was the mayor of Turin?"),
    ("What is the fare to Bergen?", "What was the fare to Bergen?"),
    ("Is the ferry being repaired?", "Has the ferry been repaired?"),
    ("Who owns the lighthouse?", "Who owned the lighthouse?"),
    ("Which band plays on Monday?", "Which band played on Monday?"),
    # Chinese.
    ("房租可以刷卡付吗", "房租必须刷卡付吗"),
    ("租客能不能养狗", "租客必须养狗吗"),
    ("扁豆一定要泡水吗", "扁豆应该泡水吗"),
    ("该不该提前走", "能不能提前走"),
    ("值得请导游吗", "可以请导游吗"),
    ("实验室可以穿什么", "实验室必须穿什么"),
    ("谁可以出席", "谁需要出席"),
    ("出席要带证件吗", "出席可以带证件吗"),
    ("面包店要关门了吗", "面包店关门了吗"),
    ("轮渡会停运吗", "轮渡停运了吗"),
    ("米兰赢了吗", "米兰有可能赢吗"),
    ("都灵是意大利的首都吗", "都灵曾当过意大利的首都吗"),
    ("谁刚才在敲门", "谁现在在敲门"),
    ("他们会离婚吗", "他们离过婚吗"),
]

ALIKE = [
    ("How do I prune a rose?", "How can I prune a rose?"),
    ("How can I prune a rose?", "How should I prune a rose?"),
    ("How must I hold a violin?", "How can I hold a violin?"),
    ("Can you explain tides?", "Please explain tides"),
    ("Could you tell me why bread rises?", "Why does bread rise?"),
    ("Can you recommend a cheap tent?", "Should I buy a cheap tent, what do you recommend?"),
    ("Am I allowed to keep bees?", "Can I keep bees?"),
    ("Is it permitted to keep bees?", "May I keep bees?"),
    ("Do I need a fishing licence?", "Is a fishing licence necessary?"),
    ("Do I need to rinse rice?", "Must I rinse rice?"),
    ("Do I need to rinse rice?", "Should I rinse rice?"),
    ("What should I do if it leaks?", "What do I do if it leaks?"),
    ("What can I do if it leaks?", "What should I do if it leaks?"),
    ("What should I eat before a race?", "What can I eat before a race?"),
    ("When will my parcel arrive?", "When does my parcel arrive?"),
    ("Who was the author of the play?", "Who is the author of the play?"),
    ("What was the worst storm in Norway?", "What is the worst storm in Norway?"),
    ("Why do ferries stop?", "Why did ferries stop?"),
    ("Has my parcel shipped?", "Did you ship my parcel?"),
    ("Was the bridge built by Romans?", "Did Romans build the bridge?"),
    ("Will I get my deposit back?", "Can I get my deposit back?"),
    ("Does the warranty cover rust?", "Will the warranty cover rust?"),
    ("How long do I have to return it?", "Within how many days can I return it?"),
    ("How long do I have to wait to vote?", "How soon can I vote?"),
    ("I have to travel. Can I defer the exam?", "Can I defer the exam?"),
    ("What must I not eat?", "What can I not eat?"),
    ("When I must travel, what can I pack?", "What can I pack when I travel?"),
    ("Can I have a receipt?", "I need to have a receipt, can I?"),
    ("Why did the dam break?", "Why will a dam break?"),
    ("Everything must go", "Everything can go"),
    # Chinese.
    ("怎么修剪玫瑰", "应该怎么修剪玫瑰"),
    ("怎样才能修剪玫瑰", "怎么修剪玫瑰"),
    ("能不能告诉我怎么去机场", "怎么去机场"),
    ("可以帮我推荐一本书吗", "应该推荐哪本书"),
    ("可以养蜂吗", "允许养蜂吗"),
    ("可以养蜂吗", "能不能养蜂"),
    ("要不要泡扁豆", "需要泡扁豆吗"),
    ("包裹什么时候会到", "包裹什么时候到"),
    ("包裹发货了吗", "包裹已经发了吗"),
    ("注销后需要多久才能重新注册", "注销后多久可以重新注册"),
    ("漏水了该怎么办", "漏水了可以怎么办"),
    ("比赛前应该吃什么", "比赛前可以吃什么"),
    ("最晚几点可以退房", "最晚几点必须退房"),
    ("大坝为什么会垮", "大坝为什么垮了"),
    ("用过的电池会爆炸吗", "电池会爆炸吗"),
    ("如何将文件转成图片", "已经有文件了怎么转成图片"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_modality_differs(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = modality(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.MODALITY
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_modality_in_other_words_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert modality(read(one), read(other)) is None
    assert modality(read(other), read(one)) is None


def test_what_differs_is_named() -> None:
    """As the trail shows it."""
    found = modality(read("Can I keep bees?"), read("Must I keep bees?"))
    assert str(found) == "modality may != must"
