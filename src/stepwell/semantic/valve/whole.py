"""Refuses a thing beside something of it: my account, my account history; 订单, 订单号."""

from stepwell.semantic.valve.addition import Addition, addition, only_in_one
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import HAN, Reading

_LONGEST = 25
"""Words; in longer texts much is said by the way."""
_DETERMINERS = frozenset("my our your his her their a an the this 的".split())
"""One stands right before the thing: of longer names the last word is often left out."""
KINDS = frozenset(
    map(
        fold,
        """
        phone app application exam test file program software language city town website site page
        device game movie film song book novel series show company firm university college school
        store shop server database model system tool feature option button function method class
        command library framework package disease virus infection syndrome disorder food fruit
        animal plant river mountain island country state province language online account card
        people person player team club band process question problem issue way thing time today
        now work help please again instead anymore yet too well
        """.split(),
    )
)
"""What a thing is, said behind its name: an Excel file, the Nile river, a Visa card."""
KINDS_IN_CHINESE = frozenset(
    """
    软件 手机 电影 游戏 歌曲 电视剧 小说 公司 大学 学校 城市 语言 文件 程序 问题 方法 办法 时候
    情况 东西 网站 平台 系统 事情 事 地方 人 话 活动 产品 商品 服务 业务 功能 疾病 病 药 水果 食物
    动物 植物 车 卡 银行 医院 专业 牌子 品牌 型号 电脑 账号 帐号
    """.split()
)


def whole(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return what one text asks of a thing that the other asks itself about, all else the same."""
    return only_in_one(_of_it, asked, stored)


def _of_it(more: Reading, less: Reading) -> str:
    mine = outline(more)
    if not len(outline(less).tokens) < len(mine.tokens) <= _LONGEST:
        return ""
    added = addition(more, less)
    if added is None or added.end - added.start != 1 or not _is_head(mine, added):
        return ""
    text = mine.texts[added.start]
    if mine.tokens[added.start].script is HAN:
        return "" if text in KINDS_IN_CHINESE else text
    return "" if mine.folds[added.start] in KINDS else text


def _is_head(mine: Outline, added: Addition) -> bool:
    """Return whether what is added is a thing: "my", another thing, it, and none behind."""
    if added.start < 2 or mine.texts[added.start - 2] not in _DETERMINERS:  # noqa: PLR2004
        return False
    before, word = mine.tokens[added.start - 1], mine.tokens[added.start]
    behind = mine.tokens[added.end : added.end + 1]
    return (
        before.has_content
        and word.has_content
        and before.script is word.script
        and not any(token.has_content for token in behind)
    )
