"""What kind of answer a Chinese text asks for."""

import re

from stepwell.semantic.valve.answer import Asks

_HOW = (
    "怎么(?!样|会|这|那|就|老|总|不|没|一直|回事|说|只|了|啦|啊|读|念|写|我|你|他|她|它|都|又|也|变|突然|还不|还没|还是)"
    "(?![^,?。]{0,40}[不没了])"
)
"""怎么 asks how only where it is not why (怎么不行了), or how somebody is (怎么样)."""
_PATTERNS = {
    Asks.CAUSE: (
        "为什么|为何|怎么(?:会|只|这么|就|老|总|不|没|还不|还没|还是|还在|一直|回事|办)|何以|原因|为嘛|凭什么"
        "|干嘛要|导致|引起的|造成的|为毛"
    ),
    Asks.WAY: (
        f"怎么办|怎么回事|怎么样?才|如何(?=[^?。!,]{{2}})|怎样(?![的?。.]|$)|{_HOW}"
        "|方法|办法|步骤|教程|流程|方式|攻略|技巧|才能|怎能"
    ),
    Asks.DURATION: (
        "多久|多长时间|(?<!几)几(?:天|周|个月|年|小时|个小时|分钟)|期限.{0,2}多长|时长"
        "|多少(?:天|年|个?小时|分钟|周|个?月|秒)"
    ),
    Asks.FREQUENCY: (
        "(?:多久|多长时间|几天|几周|几个月|几年|几个?小时)[^,?!。]{0,6}一[次回]|频率|频次|每隔多久|多频繁"
        "|[一每](?:天|日|周|星期|个?月|年)[^,?!。]{0,6}(?:几|多少)[次回]"
    ),
    Asks.TIME: "什么时候|何时|几[点月号时]|哪[天年]|哪一[年天]|日期|什么时间|什么时|多会",
    Asks.PLACE: (
        "哪里|哪儿|在哪|什么地方|哪个(?:地方|城市|国家|省|网站|市|县|区)|何处|[去从到]哪|位置|地址"
    ),
    Asks.PERSON: "谁(?!知道|能|有|会|可以|帮|给|告诉|懂|用过)|什么人|哪个人|哪位|作者|何人",
    Asks.AMOUNT: (
        "多少(?!天|年|个?小时|分钟|周|个?月|秒|钱|元|块)"
        "|(?<![求给这那好来找荐说讲首要个的])几(?!天|个月|小时|个小时|年|点|月|号|时|分钟|周|乎)"
        "|多[大高重]|多长(?!时间)|额度|利息|利率|年龄|身高|体重|人口|数量"
    ),
    Asks.PRICE: "多少(?:钱|元|块)|几[块元]|价格|价钱|费用|售价|票价|什么价",
    Asks.DISTANCE: "多远|距离|相距|几公里|多少公里",
    Asks.WHETHER: (
        "吗(?=[?!。.,~]|$)|(?<![什怎那这多])么(?=[?!。.,~]*$)|[是能可]否|没有?(?=[?。.]*$)|有木有|有没(?=有)|算不算"
        "|(?P<one>.)[不没](?P=one)|(?P<two>..)[不没](?P=two)"
    ),
    Asks.MEANING: "什么是|是什么(?=[?。.呢啊呀]*$)|含义|定义|意思",
    Asks.SUMMARY: "总结|概括|摘要|归纳",
    Asks.TRANSLATION: "翻译|译成|英[语文](?:怎么[说写读]|是)",
    Asks.LIST: "哪些|推荐|列出|列举|举例|有什么",
    Asks.WRITING: "^(?:请|帮我|请帮我)?写|作文",
    Asks.EXPLANATION: "解释|说明|介绍",
    Asks.DEED: "^(?:请|麻烦)?(?:帮我|给我|替我|请)(?:把|将|设|定|打开|关|播|放|叫)",
    Asks.NAME: "叫(?:做|作)?什么(?=[?。吗呢啊呀了]|$)|什么名字|(?:名字|名称)(?:是什么|叫)",
    Asks.KIND: "(?:哪|什么)(?:种(?!情况|方[式法])|类)|什么类型|什么样的|什么种类",
}
_HOW_SOON = re.compile("多久(?!以?[前后]|[的了呢啊呀]*(?:[?,!。]|$))")
"""多久 before its verb asks how soon, or how often; behind it, how long."""
_MEASURED = frozenset((Asks.DURATION, Asks.DISTANCE, Asks.FREQUENCY, Asks.PRICE))
_COMPILED = tuple((asks, re.compile(pattern)) for asks, pattern in _PATTERNS.items())


def asked_in_chinese(text: str) -> set[Asks]:
    """Return the kinds of answer that `Outline.han` asks for."""
    text = text.replace("咋", "怎么").replace("啥", "什么")
    found = {asks for asks, pattern in _COMPILED if pattern.search(text)}
    if Asks.FREQUENCY in found:
        found.discard(Asks.DURATION)
    elif _HOW_SOON.search(text):
        found.add(Asks.FREQUENCY)
    if not found.isdisjoint(_MEASURED):
        found.discard(Asks.AMOUNT)
    if len(found) > 1:
        found.discard(Asks.EXPLANATION)
    return found
