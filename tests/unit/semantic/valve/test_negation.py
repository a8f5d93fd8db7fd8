"""Negation: what one text denies and the other states."""

import pytest

from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.negation import negation
from stepwell.semantic.valve.reading import read

DIFFERENT = [
    # Particles.
    ("Which phones support eSIM?", "Which phones don't support eSIM?"),
    ("Which phones support eSIM?", "Which phones dont support eSIM?"),
    ("Can penguins fly?", "Why can penguins not fly?"),
    ("Why does the backup run at night?", "Why does the backup never run at night?"),
    ("Show me desserts with sugar", "Show me desserts without sugar"),
    ("Can my neighbour build a fence?", "My neighbour cannot build a fence"),
    ("Explain it and mention the price", "Explain it and don't mention the price"),
    ("Who is able to vote by post?", "Who is unable to vote by post?"),
    ("What happens if I sign the contract?", "What happens if I don't sign the contract?"),
    ("What happens if I sign the lease?", "What happens unless I sign the lease?"),
    ("Is there a charge for returns?", "Is there no charge for returns?"),
    ("Why should I update the firmware?", "Why should I not update the firmware?"),
    ("Is it rude to tip in Japan?", "Is it rude not to tip in Japan?"),
    ("What should I say to a recruiter?", "What should I avoid saying to a recruiter?"),
    # Prefixes and suffixes.
    ("Is the contract valid?", "Is the contract invalid?"),
    ("Which deposits are refundable?", "Which deposits are non-refundable?"),
    ("Which mushrooms are safe?", "Which mushrooms are unsafe?"),
    ("What makes a manual useful?", "What makes a manual useless?"),
    ("How do I mute a channel?", "How do I unmute a channel?"),
    ("Is a verbal promise legal?", "Is a verbal promise illegal?"),
    ("Which answers are complete?", "Which answers are incomplete?"),
    ("How do I deactivate the card?", "How do I activate the card?"),
    # Chinese.
    ("哪些水果可以冷冻", "哪些水果不可以冷冻"),
    ("怎么才能登录系统", "为什么无法登录系统"),
    ("这款手机支持快充吗", "这款手机为什么不支持快充"),
    ("写一段包含人名的介绍", "写一段不包含人名的介绍"),
    ("哪些岗位需要加班", "哪些岗位不需要加班"),
    ("按时吃药会怎么样", "没按时吃药会怎么样"),
    ("哪些国家允许双重国籍", "哪些国家不允许双重国籍"),
    ("哪些地方可以停车", "哪些地方禁止停车"),
    ("已经付款的订单怎么处理", "未付款的订单怎么处理"),
    ("会员怎么参加活动", "非会员怎么参加活动"),
    ("要告诉他这件事吗", "别告诉他这件事"),
    ("介绍一下有糖饮料", "介绍一下无糖饮料"),
    ("What can I do with old bread?", "What can't I do with old bread?"),
    ("How do I stop my dog barking?", "How do I make my dog bark?"),
    ("非本地户口能买房吗", "本地户口能买房吗"),
    ("我能不能不去", "我能不能去"),
    ("这个软件不能离线使用吗", "这个软件能离线使用吗"),
    ("这个药不可以和酒一起吃吗？", "这个药可以和酒一起吃吗"),
]

ALIKE = [
    ("How do I keep my dog from barking?", "How do I stop my dog barking?"),
    ("How do I keep my dog from barking?", "How can I get my dog to not bark?"),
    ("How do I avoid being scammed?", "How do I keep from being scammed?"),
    ("怎么让孩子别玩手机", "怎么阻止孩子玩手机"),
    ("Which phones don't support eSIM?", "Which phones do not support eSIM?"),
    ("Why can't I sign in?", "Why cannot I sign in?"),
    ("Why can’t I sign in?", "Why am I unable to sign in?"),
    ("Isn't Python slow?", "Is Python slow?"),
    ("Can't I get a refund?", "Can I get a refund?"),
    ("Don't you think tea is healthy?", "Do you think tea is healthy?"),
    ("Whales are mammals, aren't they?", "Are whales mammals?"),
    ("Should I lease a car or not?", "Should I lease a car?"),
    ("How do I know whether or not a melon is ripe?", "How do I know if a melon is ripe?"),
    ("I don't know how to tie a tie, help", "How do I tie a tie?"),
    ("I don't think the test is fair", "I think the test isn't fair"),
    ("Is it not impossible to win?", "Is it possible to win?"),
    ("Is this plant not safe for cats?", "Is this plant unsafe for cats?"),
    ("Is this plant not safe for cats?", "Is this plant dangerous for cats?"),
    ("Why is my printer not working?", "Why is my printer broken?"),
    ("How do I prevent mould?", "How do I stop mould?"),
    ("Is it true that not only cats purr?", "Is it true that cats purr?"),
    ("Call me on no. 5", "Call me on 5"),
    ("Can I travel with or without a visa?", "Can I travel with a visa?"),
    ("How important is sleep?", "How portable is sleep?"),
    # Chinese.
    ("能不能退票", "可以退票吗"),
    ("这个是不是正版", "这个是正版吗"),
    ("有没有推荐的餐厅", "推荐一些餐厅"),
    ("你喜不喜欢猫", "你喜欢猫吗"),
    ("要不要办护照", "需要办护照吗"),
    ("这家店不错在哪里", "这家店好在哪里"),
    ("不仅要快还要稳怎么做", "又快又稳怎么做"),
    ("对不起我想问一下退货流程", "我想问一下退货流程"),
    ("差不多多久能到", "多久能到"),
    ("我不知道怎么修改地址", "怎么修改地址"),
    ("不是不能退", "能退"),
    ("他并非不会游泳", "他会游泳"),
    ("为什么登录不了", "为什么无法登录"),
    ("为什么登录不上", "为什么登录失败"),
    ("怎么使用无线耳机", "怎么使用蓝牙耳机"),
    ("这样做不安全吗", "这样做危险吗"),
    ("这个软件不能离线使用吗", "有办法离线使用这个软件吗"),
    ("手机能不能离线用", "手机能离线用吗"),
    ("特别便宜的酒店有哪些", "便宜的酒店有哪些"),
    ("吃了没", "吃了吗"),
    ("不管多少钱都可以，推荐一款相机", "推荐一款相机"),
    ("My phone won't turn on", "My phone doesn't power on"),
    ("I can't find the key, help", "Help me find the key"),
    ("忘带钥匙怎么办", "没带钥匙怎么办"),
    ("这道菜辣不辣", "这道菜辣吗"),
    ("不小心删了照片怎么恢复", "删了照片怎么恢复"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_is_denied_differs(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = negation(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.NEGATION
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_is_said_in_other_words_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert negation(read(one), read(other)) is None
    assert negation(read(other), read(one)) is None
