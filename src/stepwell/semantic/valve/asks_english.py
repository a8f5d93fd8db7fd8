"""What kind of answer an English text asks for."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepwell.semantic.valve.answer import Asks

_BARE = 6
"""Words of a question that is no more than a question word and a clause."""
_LOOK_AHEAD = 8
"""Words behind a question word that may say more of what is asked."""
_SIGNS = frozenset(("", ".", "?", "!", ",", ";", ":"))
_ENDS = frozenset(("", "?", ".", "or", "not"))
_OPENINGS = _SIGNS | frozenset("and or know from on explain understand".split())
"""Behind these a question word asks; elsewhere it may only relate: the man who came."""
_AUXILIARIES = frozenset(
    "is are was were do does did can could will would should shall may might must has have "
    "had".split()
)
_SUBJECTS = frozenset("i you we they he she it this that there these the my your".split())
_REQUESTED = re.compile(
    r"you (?:please |kindly )?(?:tell|explain|show|give|write|recommend|suggest|help|advise|list"
    r"|translate|summar|describe|provide|make|create|find|name)"
)
"""Could you explain: a request, no question for yes or no."""
_LEAD = re.compile(
    r" (?:(?:hi|hello|hey|please|so|ok|okay|well|and|but|also|kindly|sorry|quick question"
    r"|excuse me)"
    r"(?: [,:!.])? )*"
    r"(?:(?:can|could|would|will|may) (?:you|i|anyone|someone|somebody|u) (?:please |kindly )?"
    r"(?:tell|explain|show|help|give|know|ask|advise|suggest|describe|let)(?: to)?(?: me| us)?"
    r"(?: know| understand)? "
    r"|(?:i )?(?:want|need|would like|wish) to (?:know|ask|understand|learn) |tell me |do you know "
    r"|does (?:anyone|anybody|someone) know |i wonder |i am wondering |any idea |do you think )?"
)
_ABILITY = re.compile(
    r"\b(?:can|could) (?:i|we|you|u|one|people|someone|somebody) |\bis it possible (?:for \w+ )?to "
)
_MEANING = re.compile(r"(?:what (?:is|are|was|were)|define) (?:an? |the )?(?:\S+ ){1,3}[?. ]*$")
_IS_THERE_A_WAY = re.compile(
    r"there (?:a |an |any |some )?(?:\S+ )?(?:way|ways|method|methods|possibility|anyway) "
)
_WAYS = (
    r"(?:way|method|process|procedure|step|trick|technique|approach|strategy|recipe|instruction)"
)


class _Rule(NamedTuple):
    asks: Asks
    behind: re.Pattern[str] | None = None
    """What must follow the word; anything if ``None``."""
    before: frozenset[str] | None = None
    """What must stand before it."""

    def holds(self, before: str, behind: str) -> bool:
        """Return whether a word between these asks so."""
        if self.before is not None and before not in self.before:
            return False
        return self.behind is None or self.behind.match(behind) is not None


def _rule(asks: Asks, behind: str, before: frozenset[str] | None = None) -> _Rule:
    return _Rule(asks, re.compile(behind), before)


_HOW = (
    _rule(
        Asks.DURATION,
        r"long (?!(?:is|are|was|were) the )|much time "
        r"|many (?:day|week|month|year|hour|minute|second)s? ",
    ),
    _rule(Asks.FREQUENCY, r"(?:often|frequent|frequently) |many times "),
    _rule(
        Asks.PRICE,
        r"(?:much|expensive) (?:money )?(?:\S+ ){0,8}(?:cost|costs|pay|charge|charged|charges|price"
        r"|priced|money|fee|fees|rent|worth) |much (?:is|are) (?:a|an|the|one|it|this|that|those"
        r"|tickets?) |expensive (?:is|are|was|were) ",
    ),
    _rule(
        Asks.AMOUNT,
        r"(?:many|much|old|big|tall|high|large|fast|deep|heavy|wide|strong|hot|cold|expensive"
        r"|likely|common|dangerous) |long (?:is|are|was|were) the ",
    ),
    _rule(Asks.TRANSLATION, r"(?:do|would|can|to) (?:you |i |we )?say "),
    _rule(Asks.DISTANCE, r"far "),
    _rule(Asks.CAUSE, r"come "),
    _rule(Asks.TIME, r"soon "),
    _rule(
        Asks.WAY,
        r"(?:do|can|could|should|would|might|shall) "
        r"(?:i|we|you|u|one|people|someone|somebody|a person|they) ",
    ),
    _rule(Asks.WAY, r"to ", _OPENINGS),
    _Rule(Asks.MANNER, None, frozenset(("explain", "describe"))),
    _rule(Asks.MANNER, r"(?:does|did|is|are|was|were|will|has|have|do) "),
)
_HOW_ELSE = (
    r"(?:to|about|come|is|are|was|were|do|does|did|can|could|should|would|will|might|shall|must"
    r"|many|much|long|often|far|soon|old|big|tall|high|large|fast|deep|heavy|wide|strong|hot|cold"
    r"|expensive|likely|common|dangerous|frequent|frequently|good|bad|well|easy|hard|difficult"
    r"|i|you|we|people) "
)
_WHAT = (
    _rule(
        Asks.PRICE,
        r"(?:\S+ ){0,4}(?:price|cost|fee|fare|charge)s? "
        r"|(?:do|does|did|will|would) (?:\S+ ){1,6}cost ",
    ),
    _rule(
        Asks.AMOUNT,
        r"(?:\S+ ){0,4}(?:number|amount|age|size|height|weight|percentage"
        r"|population|salary|dose|dosage|width|length|depth|speed|temperature|quantity)s? ",
    ),
    _rule(
        Asks.CAUSE,
        r"(?:\S+ ){0,3}(?:cause|caused|causes|causing|make|makes|making|made|lead|leads|trigger"
        r"|triggers|explains) |is wrong with ",
    ),
    _rule(
        Asks.WAY,
        rf"(?:\S+ ){{0,4}}{_WAYS}e?s? |(?:should|can|could|do|must) (?:i|we|you|one) do ",
    ),
    _rule(Asks.TIME, r"(?:\S+ )?(?:time|date|day|year|month|century|hours) "),
    _rule(
        Asks.PERSON,
        r"(?:\S+ )?(?:person|man|woman|people|actor|author|player|president|scientist|artist|singer"
        r"|writer)s? ",
    ),
    _rule(
        Asks.PLACE,
        r"(?:place|city|country|state|town|location|shop|store) ",
        frozenset(("in", "at")),
    ),
)
_WHEN = (
    _rule(
        Asks.TIME,
        r"(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|to) ",
    ),
    _Rule(Asks.TIME, None, frozenset(("by",))),
)
_WHERE = (
    _Rule(Asks.PLACE, None, _OPENINGS),
    _rule(
        Asks.PLACE,
        r"(?:is|are|was|were|do|does|did|can|could|should|would|will|to|have|has) ",
    ),
)
_NO_NOUN = (
    r"(?:am|is|are|was|were|be|do|does|did|can|could|will|would|should|shall|may|might|must|has|have"
    r"|had|if|about|to|the|a|an|of|i|you|we|they|he|she|it|this|that|these|those|else|happens?"
    r"|happened|kinds?|types?|sorts?|one|ones|way|ways|makes?|made|causes?|caused|exactly|if|not) "
)
_WHICH_OF = _rule(
    Asks.WHICH,
    rf"(?!{_NO_NOUN})(?:\S+ ){{1,3}}?(?:is|are|was|were|do|does|did|can|could|will|would|should|may"
    r"|must|has|have|had|need|needs) ",
)
_ASKING = _rule(Asks.WAY, r"(?:(?:do|can|could|should|would|must) (?:i|we|you|one)|to) ", _OPENINGS)
"""Whom one asks is often how one does."""
_KIND = _rule(Asks.KIND, r"(?:kind|type|sort)s? of ")
_PURPOSE = _rule(
    Asks.PURPOSE,
    r"(?:can|could|do|does|is|are) (?:\S+ ){0,3}(?:use|used|using|good) (?:\S+ ){0,4}for (?:\?|$)",
)
_NAME = _rule(
    Asks.NAME,
    r"(?:is|are|was|were) the (?:\S+ )?names? (?:of|for) (?:a |an |the )?"
    r"(?!(?:\S+ )?(?:city|country|place|town|state|person|man|woman|river|location|shop|store"
    r"|restaurant)\b)"
    r"|(?:is|are|was|were) (?:\S+ ){1,6}(?:called|named) ",
)
_RULES: dict[str, tuple[_Rule, ...]] = {
    "how": _HOW,
    "what": (*_WHAT, _WHICH_OF, _KIND, _NAME, _PURPOSE),
    "which": (*_WHAT, _rule(Asks.WHICH, rf"(?!{_NO_NOUN})"), _KIND),
    "when": _WHEN,
    "where": _WHERE,
    "deadline": (_Rule(Asks.TIME),),
    "opening": (_rule(Asks.TIME, r"hours "),),
    "distance": (_Rule(Asks.DISTANCE),),
    "duration": (_Rule(Asks.DURATION),),
    "frequency": (_Rule(Asks.FREQUENCY),),
    "anyway": (_rule(Asks.WAY, r"to "),),
    "stand": (_rule(Asks.MEANING, r"for "),),
    "stands": (_rule(Asks.MEANING, r"for "),),
    "explain": (_Rule(Asks.EXPLANATION),),
    "tldr": (_Rule(Asks.SUMMARY),),
    "gist": (_Rule(Asks.SUMMARY),),
    **dict.fromkeys(("who", "whom", "whose"), (_Rule(Asks.PERSON, None, _OPENINGS), _ASKING)),
    **dict.fromkeys(("why", "reason", "reasons", "cause", "causes"), (_Rule(Asks.CAUSE),)),
    **dict.fromkeys(("mean", "means", "meant", "meaning", "definition"), (_Rule(Asks.MEANING),)),
    **dict.fromkeys(("summary", "summarize", "summarise"), (_Rule(Asks.SUMMARY),)),
    **dict.fromkeys(("translate", "translation"), (_Rule(Asks.TRANSLATION),)),
    **dict.fromkeys(
        ("tips", "guide", "advice", "instructions", "tutorial"),
        (_rule(Asks.WAY, r"(?:to|for|on) "),),
    ),
}
DEEDS = (
    "set turn switch play book order send delete remove add start stop cancel schedule remind mute "
    "unmute lower raise dim increase decrease put call dial email text post pause resume skip "
    "shuffle wake buy reserve snooze clear reset"
)
"""Verbs with which a text bids that something be done."""
_DEED = re.compile(
    r"^ ?(?:(?:please|kindly|hey|ok|okay) (?:\S+ )?)?"
    r"(?:(?:can|could|would|will) you (?:please |kindly )?"
    r"|i (?:want|need|would like) (?:you )?to |please |go ahead and )?"
    rf"(?:(?:{DEEDS.replace(' ', '|')}) (?!(?:is|are|was|status|history|number|date|of) )"
    r"|(?:alarm|reminder|timer) (?:for|at|in|to) )"
)
_FIRST: dict[str, tuple[_Rule, ...]] = {
    **dict.fromkeys(
        "list name give show find recommend suggest examples".split(),
        (_Rule(Asks.LIST), _rule(Asks.ALL, r"(?:me )?(?:all|every) ")),
    ),
    **dict.fromkeys(
        "write compose draft create generate implement".split(), (_Rule(Asks.WRITING),)
    ),
    "how": (_rule(Asks.MANNER, rf"(?!{_HOW_ELSE})"),),
    "what": (_rule(Asks.LIST, r"are (?:some|the|good) "),),
    **dict.fromkeys("describe discuss".split(), (_Rule(Asks.EXPLANATION),)),
    **dict.fromkeys(
        "best step steps way ways tip tips".split(),
        (_rule(Asks.WAY, r"(?:steps? |ways? |tips? )*to "),),
    ),
}
"""For the first word of a text."""


def asked_in_english(text: str) -> set[Asks]:
    """Return the kinds of answer that `Outline.english` asks for."""
    lead = _LEAD.match(text)
    text = text[lead.end() :] if lead else text
    words = text.split()
    found = set(_by_words(words))
    if not found and (bare := _by_form(text, words)) is not None:
        return {bare}
    if _MEANING.match(text):
        found.add(Asks.MEANING)
    if " there " in text and _IS_THERE_A_WAY.search(text):
        found |= {Asks.WAY, Asks.ABILITY}
    if Asks.WAY not in found and _asks_whether(words):
        found.add(Asks.ABILITY if _ABILITY.search(text) else Asks.WHETHER)
    return _without_general(found)


def _by_form(text: str, words: list[str]) -> Asks | None:
    """Return what a text asks for that has no word to say so."""
    if _DEED.match(text):
        return Asks.DEED
    if words[:1] == ["when"] and len(words) <= _BARE and "," not in words:
        return Asks.TIME  # When it ends; but not: when it ends, ...
    return None


_PRECISE = (
    (Asks.ALL, Asks.LIST),
    (Asks.NAME, Asks.MEANING),
    (Asks.DURATION, Asks.AMOUNT),
    (Asks.FREQUENCY, Asks.AMOUNT),
    (Asks.PRICE, Asks.AMOUNT),
    (Asks.KIND, Asks.WHICH),
    (Asks.TIME, Asks.WHICH),
    (Asks.PLACE, Asks.WHICH),
    (Asks.PERSON, Asks.WHICH),
    (Asks.WAY, Asks.WHICH),
    (Asks.CAUSE, Asks.WHICH),
    (Asks.WAY, Asks.MANNER),
)
"""Kinds, and others that their words also stand for."""


def _without_general(found: set[Asks]) -> set[Asks]:
    for precise, general in _PRECISE:
        if precise in found:
            found.discard(general)
    if len(found) > 1:
        found.discard(Asks.EXPLANATION)
    return found


def _by_words(words: list[str]) -> Iterator[Asks]:
    for index in [at for at, word in enumerate(words) if at == 0 or word in _RULES]:
        word = words[index]
        rules = _RULES.get(word, ()) + (_FIRST.get(word, ()) if index == 0 else ())
        before = words[index - 1] if index else ""
        behind = " ".join(words[index + 1 : index + 1 + _LOOK_AHEAD]) + " "
        if word == "why" and _is_afterthought(before, behind):
            continue
        yield from (rule.asks for rule in rules if rule.holds(before, behind))


def _is_afterthought(before: str, behind: str) -> bool:
    """Return whether a "why" only asks for reasons: ..., and why? Why or why not?"""
    return (before in _SIGNS or before == "and") and behind.split(" ", 1)[0] in _ENDS


def _asks_whether(words: list[str]) -> bool:
    for index, word in enumerate(words):
        if word not in _AUXILIARIES:
            continue
        behind = words[index + 1 : index + 4]
        if index == 0 or (words[index - 1] in _SIGNS and behind and behind[0] in _SUBJECTS):
            return bool(behind) and not _REQUESTED.match(" ".join(behind))
    return False
