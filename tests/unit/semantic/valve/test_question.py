"""Question: what kind of answer is asked for."""

import pytest

from stepwell.semantic.valve.answer import Asks
from stepwell.semantic.valve.asks import asks
from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.question import question
from stepwell.semantic.valve.reading import read

KINDS = [
    ("How do I prune a rose?", Asks.WAY),
    ("how to prune a rose", Asks.WAY),
    ("What's the best way to prune a rose?", Asks.WAY),
    ("Could you tell me how to prune a rose?", Asks.WAY),
    ("What should I do with old paint?", Asks.WAY),
    ("Why do roses have thorns?", Asks.CAUSE),
    ("How come roses have thorns?", Asks.CAUSE),
    ("What is the reason roses have thorns?", Asks.CAUSE),
    ("What causes rust?", Asks.CAUSE),
    ("When did Pompeii fall?", Asks.TIME),
    ("What year did Pompeii fall?", Asks.TIME),
    ("Where is Pompeii?", Asks.PLACE),
    ("In which country is Pompeii?", Asks.PLACE),
    ("Who found Pompeii?", Asks.PERSON),
    ("Which person found Pompeii?", Asks.PERSON),
    ("How many rooms has the Louvre?", Asks.AMOUNT),
    ("What is the price of saffron?", Asks.PRICE),
    ("How much does saffron cost?", Asks.PRICE),
    ("How much is a ticket?", Asks.PRICE),
    ("How much does a swan weigh?", Asks.AMOUNT),
    ("Which trains stop here?", Asks.WHICH),
    ("What herbs do I need?", Asks.WHICH),
    ("How long does paint need to dry?", Asks.DURATION),
    ("How often do comets come?", Asks.FREQUENCY),
    ("Is Pompeii in Italy?", Asks.WHETHER),
    ("Please, can dogs see colours?", Asks.WHETHER),
    ("What is osmosis?", Asks.MEANING),
    ("What does osmosis mean?", Asks.MEANING),
    ("How does a sail work?", Asks.MANNER),
    ("Summarize the letter", Asks.SUMMARY),
    ("Translate the letter", Asks.TRANSLATION),
    ("怎么修剪玫瑰", Asks.WAY),
    ("玫瑰如何修剪", Asks.WAY),
    ("修剪玫瑰的方法", Asks.WAY),
    ("玫瑰为什么有刺", Asks.CAUSE),
    ("生锈的原因", Asks.CAUSE),
    ("手机怎么不响了", Asks.CAUSE),
    ("庞贝什么时候被埋的", Asks.TIME),
    ("庞贝在哪里", Asks.PLACE),
    ("谁发现了庞贝", Asks.PERSON),
    ("卢浮宫有多少房间", Asks.AMOUNT),
    ("油漆多久能干", Asks.DURATION),
    ("油漆要多少天能干", Asks.DURATION),
    ("一桶油漆多少钱", Asks.PRICE),
    ("窗户多久擦一次", Asks.FREQUENCY),
    ("一年擦几次窗户", Asks.FREQUENCY),
    ("庞贝在意大利吗", Asks.WHETHER),
    ("狗能不能看见颜色", Asks.WHETHER),
    ("渗透是什么意思", Asks.MEANING),
    ("总结这封信", Asks.SUMMARY),
]

DIFFERENT = [
    ("Why do I back up a phone?", "How do I back up a phone?"),
    ("When was the tower built?", "Where was the tower built?"),
    ("Who built the tower?", "How was the tower built?"),
    ("Why is coffee bitter?", "Is coffee bitter?"),
    ("How long do crows live?", "Where do crows live?"),
    ("How many eggs do I need?", "Why do I need eggs?"),
    ("What is photosynthesis?", "How do I do photosynthesis at home?"),
    ("Can I repot an orchid?", "When can I repot an orchid?"),
    ("How often should I exercise?", "Why should I exercise?"),
    ("Summarize this article", "Translate this article"),
    ("怎么备份手机", "为什么要备份手机"),
    ("什么时候开学", "在哪里开学"),
    ("谁建了这座塔", "为什么建这座塔"),
    ("兰花能换盆吗", "兰花什么时候换盆"),
    ("要多少鸡蛋", "为什么要鸡蛋"),
    ("总结这篇文章", "翻译这篇文章"),
    ("How far is Oslo?", "How long does a trip to Oslo take?"),
    ("上海到杭州多远", "上海到杭州多久"),
    ("Explain why tides turn", "Explain how tides turn"),
    ("Set a timer for tea", "Is there a timer for tea?"),
    ("Can you play the anthem?", "Who wrote the anthem?"),
    ("alarm for eight", "is there an alarm for eight"),
    ("What is the name of the tram museum?", "In which year did the tram museum open?"),
    ("What are baby hares called?", "Where are baby hares born?"),
    ("Which type of helmet do I need?", "Do I need a helmet?"),
    ("What can I use lye for?", "Where can I get lye?"),
    ("Find all the files named draft", "How many files named draft are there?"),
    ("how rivers freeze", "when rivers freeze"),
    ("请帮我设一个闹钟", "我的闹钟是几点"),
    ("这座桥叫什么", "这座桥在哪里"),
    ("这座桥叫什么名字", "这座桥是哪一年建的"),
    ("需要哪种头盔", "需要戴头盔吗"),
    ("Who can adopt a donkey?", "How can I adopt a donkey?"),
    ("How much does a mooring cost?", "How long can I use a mooring?"),
    ("What does it cost to print a map?", "How long does it take to print a map?"),
    ("How much is a haircut?", "How often do I need a haircut?"),
    ("Which birds live on the island?", "How many birds live on the island?"),
    ("What are some good trails by the lake?", "How far are good trails by the lake?"),
    ("修表多少钱", "修表多少天"),
    ("修表的费用", "修表要多久"),
    ("窗户多久擦一次", "一次擦窗户多久"),
    ("有哪些好看的展览", "好看的展览什么时候开"),
]

ALIKE = [
    ("How do I prune a rose?", "What is the way to prune a rose?"),
    ("How can I prune a rose?", "What are the steps to prune a rose?"),
    ("Why is the sea salty?", "What makes the sea salty?"),
    ("When does the museum open?", "What time does the museum open?"),
    ("Who painted the ceiling?", "Which artist painted the ceiling?"),
    ("Where is the meeting?", "In what place is the meeting?"),
    ("How much is a ticket?", "What does a ticket cost?"),
    ("How much is a ticket?", "What is the price of a ticket?"),
    ("Can you tell me why bread rises?", "Why does bread rise?"),
    ("How old is the universe?", "What is the age of the universe?"),
    ("Is there a way to undo this?", "How do I undo this?"),
    ("Is there a way to undo this?", "Can I undo this?"),
    ("What is the best cheese, and why?", "What is the best cheese?"),
    ("Where can I learn to sail?", "How can I learn to sail?"),
    ("Could you summarize the letter?", "Give me a summary of the letter"),
    ("漏水了怎么办", "漏水了如何处理"),
    ("为什么天会黑", "天黑的原因是什么"),
    ("票多少钱", "票价是多少"),
    ("How much is a ticket?", "What amount do I pay for a ticket?"),
    ("Who do I call about a leak?", "How do I report a leak?"),
    ("How old must I be to sail?", "At what age can I sail?"),
    ("What number of birds live here?", "How many birds live here?"),
    ("How many days of leave do I get?", "How much leave do I get?"),
    ("油漆多久能干", "油漆几个小时能干"),
    ("油漆要几分钟干", "油漆要多少分钟干"),
    ("窗户多久擦一次", "窗户多久需要擦"),
    ("博物馆几点开门", "博物馆什么时候开门"),
    ("什么是通胀", "通胀是什么意思"),
    ("请问怎么换轮胎", "换轮胎的步骤"),
    ("电脑很卡怎么回事", "电脑很卡怎么办"),
    ("有没有好看的小说", "推荐几本好看的小说"),
    ("咋修自行车", "怎么修自行车"),
    ("How do you say hello in Thai?", "What is hello in Thai?"),
    ("Can I move my pension?", "How do I move my pension?"),
    ("Set a timer for tea", "Could you set a timer for tea?"),
    ("I want to cancel my order", "How do I cancel my order?"),
    ("What is the name of the city where the tower stands?", "Where does the tower stand?"),
    ("What is the name of the founder of the zoo?", "Who founded the zoo?"),
    ("When it rains, why do worms come up?", "Why do worms come up when it rains?"),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_what_is_asked_for(text: str, kind: Asks) -> None:
    """Among others: a text may ask for more than one thing."""
    assert kind in asks(read(text))


def test_a_statement_asks_for_nothing() -> None:
    """Then nothing differs either."""
    assert asks(read("My bread is burnt")) == frozenset()
    assert asks(read("面包烤焦了")) == frozenset()
    assert question(read("面包烤焦了"), read("面包为什么会烤焦")) is None


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_kind_of_answer_differs(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = question(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.QUESTION
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_kind_in_other_words_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert question(read(one), read(other)) is None
    assert question(read(other), read(one)) is None
