"""Modality of Chinese questions."""

import re
from collections.abc import Iterator

from stepwell.semantic.valve.modal import NONE, Asking, Force, Modality, Tense

_ASKED_FOR = re.compile(
    r"(?:你|您|谁|有人|大家)?(?:能不能|可不可以|能否|可否|可以|能)(?:请|麻烦|再|简单|详细|具体|先)*(?:你|您|大家)?"
    r"(?:帮|告诉|给我|给个|跟我|和我|为我|说[说下一明]|讲|推荐|介绍|解释|教|提供|发我|列|写[个一篇]|翻译)"
)
"""可以帮我: a request."""
_WAY = re.compile(
    r"(?:应该|应当|该|需要|可以|得|要)?(?:怎么样?|如何|怎样|咋)(?:做|办)?(?:才|才能够?|就)?"
    r"(?:能够|能|可以|可|应该|应当|该|会|需要|必须)?|(?:应该|该|需要|可以|能)(?:怎么|如何|怎样|咋)"
    r"|(?:该|应该)做(?:些|点)?什么|才[能会可]以?"
)
"""怎么才能, 该怎么: a way is asked for."""
_FORCES = (
    (
        Force.MAY,
        (
            r"可不可以|可以|能不能|能否|可否|能够|是否能|允许|准许|行不行|可行|许可|行吗"
            r"|(?<![不可功性智节技才动电热潜职全本机万势太核光官效产只就都])能(?![力量源够耗人效])"
            r"|(?<=[就都])能(?![力量源够耗人效])"
        ),
    ),
    (Force.MUST, r"必须|务必|强制|非得|不得不|必需|必选|一定[要得]|非要"),
    (
        Force.NEED,
        r"需要(?!多|几|等|间隔)|(?<![不想只主重须定])要(?=[^?!,。了]{1,8}[吗么](?:[?!,。]|$))|需不需要|用不用|要不要|有必要|必要吗|[也还就都先是要总我你]得(?![到了过很])",
    ),
    (
        Force.SHOULD,
        r"应该|应当|该不该|值得|值不值|建议|要不要|有必要|推荐吗|最好(?![的玩吃看用喝])",
    ),
)
_NEEDED = {Force.MAY: "能可允准许行", Force.MUST: "必务强非不定", Force.NEED: "要用得必"}
_NEEDED |= {Force.SHOULD: "应该值建要必推最"}
"""Characters one of which is in each of its words."""
_COMPILED = tuple((force, _NEEDED[force], re.compile(pattern)) for force, pattern in _FORCES)
_SIGNS_OF_TENSES = "可会将即打要曾过了已刚方现目当正此眼是"
_NO_EXPERIENCE = "程去来度期敏滤年节生多于分户关得错后夜头河桥路马境塞瘾热气剩失火客渡"
_EXPERIENCE = rf"曾(?!祖|孙)|(?<![通经超不难太错渡好透越度跳绕胜路得])过(?![{_NO_EXPERIENCE}])"
_EXPERIENCED = re.compile(rf"(?:{_EXPERIENCE})(?![^?!。,]*[能会要可还])")
"""过 in the main clause: what was done by the way has another verb behind it."""
_HAPPENED = re.compile(
    rf"(?<![怎么几])了(?:吗|么|没有?|吧|呢)?(?=[?!。.,~]|$)|已经?(?!知|婚)|{_EXPERIENCE}"
)
_JUST_NOW = re.compile(r"刚才|刚刚|方才")
_NOW = re.compile(r"现在|目前|当前|正在|此刻|眼下")
_GOING_TO = re.compile(
    r"会不会|将[会要于]|即将|打算|快要|要[^?,。不]{1,6}了"
    r"|(?<![机不社都只才开宴舞晚大年学协聚约议委总])会(?![议员计所场费展话谈馆长面同社心意])"
)
_POSSIBLY = re.compile(r"有没有可能|有可能|可不可能|可能(?=[^性]*吗)|是否可能")
_WHETHER = re.compile(
    r"(?:吗|么|没有?|不)(?=[?!。.,~]|$)|(?P<one>.)[不没](?P=one)|(?P<two>..)[不没](?P=two)|[是能可]否|有没有"
)
_IS_SO = re.compile(r"(?<![还可要就但只])是(?![不否])[^?,。]*(?<!的)[吗么](?=[?!。.,~]|$)")
"""是…吗; but not 是…的吗, which asks how it was."""
_CAUSE = re.compile("为什么|为何|为啥|怎么会|原因")
_WHICH = re.compile(r"什么|啥|哪|谁|几|多少|多久|多长|多大|怎么|如何|怎样|咋")


def modality_in_chinese(han: str) -> Modality:
    """Return what `Outline.han` asks."""
    signs = frozenset(han)
    text = han if signs.isdisjoint("能可") else _ASKED_FOR.sub("", han)
    text = text if signs.isdisjoint("怎如咋才做") else _WAY.sub("怎么", text)
    asking = _asking(text)
    if asking is Asking.NOTHING:
        return NONE
    is_limit = "最晚" in text or "最迟" in text  # By when one may is by when one must.
    forces = {
        force
        for force, needed, pattern in _COMPILED
        if not is_limit and not signs.isdisjoint(needed) and pattern.search(text)
    }
    tenses = frozenset(() if signs.isdisjoint(_SIGNS_OF_TENSES) else _tenses(text))
    return Modality(asking, frozenset(forces), tenses)


def _asking(text: str) -> Asking:
    if _CAUSE.search(text):
        return Asking.CAUSE
    if _WHICH.search(text):
        return Asking.WHICH
    return Asking.WHETHER if _WHETHER.search(text) else Asking.NOTHING


def _tenses(text: str) -> Iterator[Tense]:
    if _POSSIBLY.search(text):
        yield Tense.MIGHT
    elif _GOING_TO.search(text):
        yield Tense.WILL
    elif _EXPERIENCED.search(text):
        yield Tense.WAS
    elif _HAPPENED.search(text):
        yield Tense.DID
    if _JUST_NOW.search(text):
        yield Tense.BEFORE
    if _NOW.search(text) or (_IS_SO.search(text) and not _EXPERIENCED.search(text)):
        yield Tense.IS
