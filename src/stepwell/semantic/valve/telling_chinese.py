"""Chinese that tells how to answer or to act: 用英语回答, 假装, 故意."""

import re

_ASKED_FOR = re.compile(
    r"[吗呢么嘛?？]$|什么|怎[么样]|如何|哪[个些里儿]|多少|几[个天次]|是否|能不能|可不可以|为何"
)
_TOLD = re.compile(
    r"(?:请|你|您|务必|必须|一定要?|要|并且?|但是?|然后|另外|同时|记得|记住|最后|而且|全程|都|给我){0,4}"
    r"(?:用.{1,12}?(?:回答|回复|答复|作答|答|解释|说明|介绍|语气|口吻|口气|方式|风格|形式|格式|写|说|讲)"
    r"|以.{1,12}?(?:回答|回复|作答|语气|口吻|口气|身份|风格|形式|格式)"
    r"|[只仅](?:[能准许可要需]|用.{0,6}?)?(?:回答|回复|答|说|输出)(?!来|是)"
    r"|(?:不要|不准|不许|禁止|别(?!的|人|处|名|墅|称|克)|勿|避免|拒绝)(?!钱|紧).{1,20}"
    r"|(?:忘记|忘掉|忘了|忽略|无视)(?:以上|之前|前面|上面|所有|一切|规则|指令|系统|你|我).{0,20}"
    r"|(?:假装|假设你|装作|装成|扮演|充当|忽略|无视|撒谎|说谎|胡说|瞎编|编造|骗|欺骗|误导|辱骂|嘲讽|嘲笑|侮辱|诋毁|押韵"
    r"|谎称|声称|故意|乱答|乱说|骂(?:我|你|用户|客户|顾客|人)|(?:访问|点击)(?![了过后之])).{0,20}"
    r"|(?:回答|回复)(?!了|的|我|你).{1,12}|(?:语气|口吻|口气).{1,12}"
    r"|(?:答案|态度|内容)(?:要|必须|应|得|请|只|尽量|越|全).{1,12}"
    r"|(?:说|讲).{0,6}?(?:假话|谎|反话|脏话)"
    r"|每(?:句|段|个字|一句).{1,12}|[像学].{1,8}?(?:说话|回答|回复|讲话)|[反倒]着.{1,4}"
    r"|用(?:[英中日法德俄韩]|文言|白话|方言|粤|大写|小写|拼音|表情)[^,。?]{0,3}"
    r"|用.{0,6}?(?:用?语|诗词?|[腔文]|[语声]调)$|夸[大张].{0,6}|阴阳怪气.{0,4}|答案[里中].{1,12}"
    r"|[让叫](?:他们|用户|客户|顾客|读者|对方).{1,10}|把.{0,4}?(?:答案|回答).{1,8}"
    r"|加(?:一个|个|一句|一段).{1,12}|给我?.{0,4}?(?:错|假).{0,2}的.{0,6}|从现在起.{1,12}"
    r"|推荐(?!一?下|[一几]|个|给|吧|些|款).{2,12}"
    r"|(?:写|改|变|翻译|译|编)成.{1,10})(?<!了)"
)
"""How a Chinese clause begins that tells how to answer."""
_POLITE_CHINESE = re.compile(
    r"请问|谢|感谢|求|帮|急|在线等|告诉|指教|赐教|解答|回答我?一下|回复我?一下|尽快|详细|具体|见谅|打扰|麻烦"
)
"""In a clause that only asks for an answer."""
_MANNER_CHINESE = re.compile(
    r"(?:故意|恶意|错误|非法|违法|违规|虚假|欺诈|欺骗|偷偷|暗中|撒谎|说谎|假装|谎称|强行|暴力|粗鲁|粗暴|无礼|讽刺|胡乱"
    r"|少|多|停|戒|禁|补|误|偷|停止|戒掉|减少|增加|提前|推迟|延迟|重新|重复|自动|手动|单独|批量|空腹|大量|少量|过量"
    r"|乱|匿名|秘密|作弊|作假|造假|不诚实|恶劣|愤怒|幽默|夸张)(?:地|的|性地|着)?"
    r"|(?!快速|迅速|安全|正确|简单|轻松|方便|真正|准确|有效|顺利|合理|具体|详细|好好|慢慢|彻底|完全|完整|永久|最快|更|很)"
    r"\w{2,3}地(?!.)"
)
"""A manner that changes the answer; 快速地 and the like go without saying."""

_POLITE_CLAUSE = re.compile(
    r"(?:请问|请教|求助|求解|求教|求|多谢|谢谢|谢|感谢|感激|不尽|非常|十分|很|你们?|您|大家|各位|大神|大佬|老师|医生|客服|亲们?"
    r"|专家|朋友们?|小哥|小姐姐|哥|姐|好|哈喽|嗨|喂|在吗|在不在|有人|知道|有没有|吗|呢|吧|啊|呀|哦|了|的|么|嘛|急急?|在线等|帮忙|帮我?"
    r"|一下|看看|解答|回答|回复|指教|赐教|指点|告诉我|告知|麻烦|打扰|不好意思|抱歉|辛苦|想问|想知道|想咨询|咨询|问一?[下个]|问题|我"
    r"|对不对|对[吧吗]|是[吧吗]|不知道|不懂|不会|给个答案|早上|上午|中午|下午|晚上|早|晚安|祝|生活|工作|愉快|顺利|请|拜托|尽快|谁|哪位|能|可以|具体|详细|说明|说说|讲讲"
    r"|现在|今天|最近|这个|那|就是|还有|另外)+"
)
"""What only asks, greets or thanks."""
_ANSWER_CHINESE = re.compile(
    r"(?:我|就是|很|都|可以的?|能|好|对|是)(?:可以|能|好|对|是)?[的了吧啊呀]*"
)
"""Of the same words, what may pass for an answer."""


def is_polite_in_chinese(clause: str) -> bool:
    """Return whether a Chinese clause only asks, greets or thanks."""
    return (
        _POLITE_CLAUSE.fullmatch(clause) is not None and _ANSWER_CHINESE.fullmatch(clause) is None
    )


def told_in_chinese(clause: str) -> str:
    """Return the part of a Chinese clause that tells how to answer; empty if none does."""
    if _ASKED_FOR.search(clause):
        return ""
    found = _TOLD.match(clause)
    return "" if found is None or _POLITE_CHINESE.search(found[0]) else found[0]


def is_manner_in_chinese(words: str) -> bool:
    """Return whether Chinese words say how something is done, and not by the way."""
    return _MANNER_CHINESE.fullmatch(words) is not None
