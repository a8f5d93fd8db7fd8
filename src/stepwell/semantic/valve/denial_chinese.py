"""Where a Chinese text denies something."""

import re

_IDLE = re.compile(
    # 能不能, 是不是, 有没有, 可不可以, 喜不喜欢: questions, not denials; 吃了没, 能用不.
    r"(?P<one>.)[不没](?P=one)|(?P<two>..)[不没](?P=two)|没有?(?=[?。.!~]*$)|不(?=[?。.!~]*$)|^不(?=[,!])"
    # Two denials.
    r"|不得不|不能不|不可不|没有不|无不|不是不|不会不|并非不|并不是不"
    # Questions that expect a yes.
    r"|难道(?:不是?|没有?)|不就是|岂不|何不|不是[^什怎]{1,12}[吗么]|还是不"
    # 我不知道怎么办 asks 怎么办.
    r"|(?<!什么)(?<!怎么)不知道|不知(?=.{0,4}(?:怎|如何|什么|哪|谁|几|多))"
    r"|我不会(?=[^,?]*[,.])"
    # Words that hold the character and deny nothing.
    r"|不(?:[错同久仅但论如只止惜妨愧禁锈孕育良宁甘忍料尽敌由胜]|过(?!敏)|管(?!用)|觉(?!得)|等(?!于))"
    r"|不好意思|不小心|不一样|不动产|不得了|对不起|差不多|了不起|要不(?!要)|不然|不客气|不用谢|不谢|数不清"
    r"|说不定|受不了|不断|不足为|巴不得|恨不得|不亚于|不至于|不列颠"
    r"|没关系|没[事准错]|没收(?!到)|没辙|淹没|沉没|埋没|出没|吞没"
    r"|无[论线数聊奈语意锡人极烟间暇花穷名双敌忧辜印比霜]|无所谓|无非|无缝|无形"
    r"|未[来免婚成央名知]"
    r"|非[常洲要凡诚典得农遗]|是非|莫非|除非|非主流|非议"
    r"|[特分区级性识类个差告鉴判派离道送辨惜诀甄永阔组阶]别"
    r"|别[人的墅名称处致具克扭样针字离管问看说提急怕客]"
    r"|否[则定认]|[是能可会要]否|与否"
    r"|莫[名斯大扎高言奈]|约莫"
)
"""Longer words come before those they hold."""
_YES_NO = re.compile(r"[吗么嘛][?!。.~]*$")
_OPEN = re.compile("什么|怎|哪|谁|为何|如何|几|多少")
_ASKED = re.compile("不(?=能|可以|会|支持|行|可|需要|允许|提供|包)")
"""In a yes-no question 不能 asks what 能 asks."""
_DENIAL = re.compile(
    r"不可以|不可能|不需要|不应该|不能够|没有|没法|没办法|无法|无效|禁止|严禁|切勿|请勿|并非"
    r"|不[^\W\d]|不|没|冇|无|未|非|别|甭|勿|莫|否"
)

_LONGEST = 100
"""Characters of a question."""
_MARKS = re.compile(r"[\s,.。?!~]")


def is_turned(one: str, other: str) -> bool:
    """Return whether two yes-no questions are the same but for one 不: yes to one, no to the other.

    Takes two `Outline.han`.
    """
    if one.count("不") == other.count("不"):
        return False
    one, other = _MARKS.sub("", one), _MARKS.sub("", other)
    if abs(len(one) - len(other)) != 1 or len(one) > _LONGEST:
        return False
    if not (_YES_NO.search(one) and _YES_NO.search(other)):
        return False
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return any(
        longer[:at] + longer[at + 1 :] == shorter for at, char in enumerate(longer) if char == "不"
    )


WEAK = frozenset(
    """
    怎么办 失败 拒绝 停止 避免 防止 阻止 制止 预防 缺乏 缺少 消失 忘 克服 缓解 消除 戒 解决 丢
    坏了 失效 异常 取消 关闭 排除 错误 问题 故障 难 死机 断 报错 出错 停用 失灵
    冻结 限制 黑屏 白屏 违 假 坏 卡顿 掉线 断开 断网
    """.split()
)
"""Words that may say in one text what a denial says in the other."""


def denials(han: str) -> tuple[str, ...]:
    """Return the words of `Outline.han` that deny, in order."""
    if not _DENIAL.search(han):
        return ()
    if _YES_NO.search(han) and not _OPEN.search(han):
        han = _ASKED.sub(" ", han)
    return tuple(_DENIAL.findall(_IDLE.sub(" ", han)))
