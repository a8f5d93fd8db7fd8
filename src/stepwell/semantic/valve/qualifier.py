"""Refuses a thing with and without a quality: a poem, a rhyming poem; 请假邮件, 正式请假邮件.

Only where one text is the other, word for word, and one word or two more.
"""

from stepwell.semantic.valve.addition import addition, only_in_one
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import HAN, LATIN, Reading
from stepwell.semantic.valve.whole import KINDS, KINDS_IN_CHINESE

_LONGEST = 25
"""Words; in longer texts much is said by the way."""
_MOST = 3
"""Words added."""
_SAYS_NOTHING = (
    frozenset(
        map(
            fold,
            """
        best good great top most nice better proper right correct exact actual real true certain
        specific particular possible various different common general main major important useful
        effective easy easiest simple quick fast new current recent latest modern today now own ever
        always also just even still very quite too so please kindly way ways thing things kind kinds
        sort type types example examples number amount list person people someone anyone everyone
        something anything somebody place world life use using user name help need want try like
        think know find get make have do look say tell give go come start begin keep let mean
        really truly literally indeed somehow currently usually generally normally exactly actually
        basically simply quickly easily fully successfully correctly properly safely honestly fact
        total whole entire overall average typical standard basic normal usual popular famous well
        known favorite favourite personal big biggest large largest many much several few couple
        process method procedure step steps idea ideas tip tips reason reasons difference meaning
        question answer problem issue year day time moment case point fact part called named
        again anymore already yet together myself yourself self available online pending previous
        former next original
        """.split(),
        )
    )
    | KINDS
)
"""What may be said or left out."""
_SAYS_NOTHING_IN_CHINESE = (
    frozenset(
        """
    真的 现在 到底 究竟 这个 这种 那个 一个 一下 一些 一点 可以
    应该 知道 请问 帮我 最好 比较 非常 特别 怎么样 什么 怎么 如何
    关于 有关 目前 最近 刚刚 刚才 已经 正在 一直 总是 老是 大家
    自己 咱们 我们 你们 他们 的话 时候 以后 之后 之前 里面 意思
    情况 东西 事情 问题 方法 办法 效果 专业 确实 其实 本来 所以
    或者 还有 而且 马上 快点 赶紧 才能 需要 觉得 显示 开始 进行
    出来 起来 这样 这么 那么 多少 几个 哪个 哪些 哪里 给我 告诉
    查询 介绍 说明 具体 详细 一般 通常 主要 重要 常见 正确 真正
    快速 有效 简单 全部 现任 当前
    """.split()
    )
    | KINDS_IN_CHINESE
)
_NUMERALS = frozenset("一二两三四五六七八九十几每某")


def qualifier(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return the quality that only one text names, if that is all that it says more."""
    return only_in_one(_added, asked, stored)


def _added(more: Reading, less: Reading) -> str:
    mine = outline(more)
    if not len(outline(less).tokens) < len(mine.tokens) <= _LONGEST:
        return ""
    place = addition(more, less)
    if place is None or place.start == 0 or place.end - place.start > _MOST:
        return ""  # What a text begins with is no quality: it may tell what to do.
    added = mine.tokens[place.start : place.end]
    said = [token for token in added if token.has_content]
    is_chinese_phrase = mine.han and len(added) > 1
    if not said or is_chinese_phrase or any(map(_says_nothing, said)):
        return ""
    return " ".join([token.text for token in said])


def _says_nothing(token: Token) -> bool:
    """Return whether a word may be said or left out; in Chinese any of one character may."""
    if token.script is HAN:
        text = token.text
        return len(text) == 1 or text[0] in _NUMERALS or text in _SAYS_NOTHING_IN_CHINESE
    return token.script is LATIN and token.fold in _SAYS_NOTHING
