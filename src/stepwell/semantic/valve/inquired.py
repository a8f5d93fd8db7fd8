"""What is asked for, the doer or the deed's object: what eats frogs, what frogs eat; 什么导致失眠.

The words are the same and their order is natural in both, so nothing seems to have changed places.
"""

import re

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import SYMBOL, Reading

_ASKING = frozenset(("what", "who", "whom"))
_AUXILIARIES = frozenset("do does did can could will would may might should else".split())
_SKIPPED = frozenset("a an the my your his her its our their".split())
_BOTH_WAYS = frozenset(map(fold, "mean cost happen look sound call marry meet resemble".split()))
"""With these the order says nothing, or people get it wrong."""
_PARTICLES = frozenset(("to", "in", "by", "on", "for"))
_DO = frozenset("do does did".split())
_ASKED_OF = frozenset("who whom what which".split())
_BEFORE_DO = 3
"""Words of what is asked for: which kinds of birds do."""
_LONGEST = 12
_CHINESE_VERBS = (
    "导致|引起|引发|造成|影响|促进|抑制|产生|诱发|决定|改变|喜欢|击败|打败|帮助|伤害|吃"
)
_CHINESE_DOER = re.compile(
    rf"(?:什么|哪些|谁|啥)[^,。?吗]{{0,6}}?(?:{_CHINESE_VERBS})(?!\w{{0,2}}(?:什么|哪些|谁|啥))"
    rf"|(?:由|被|受)(?:什么|哪些|谁|啥)[^,。?]{{0,4}}?(?:{_CHINESE_VERBS})"
    rf"|(?:{_CHINESE_VERBS})(?:的原因|的因素)"
)
_CHINESE_OBJECT = re.compile(rf"(?:{_CHINESE_VERBS})(?:了|到|哪种)?(?:什么|哪些|谁|啥)(?!原因)")


def inquired(asked: Reading, stored: Reading) -> Difference | None:
    """Return a difference if one text asks who does it, the other to whom it is done."""
    mine, theirs = asked.fact(_question), stored.fact(_question)
    for one, other, turned in ((mine, theirs, False), (theirs, mine, True)):
        if _is_doer(one) and _is_object_of(other, one):
            words = "who does it", "to whom it is done"
            return Difference(Kind.ORDER, *(words[::-1] if turned else words))
    return _in_chinese(asked, stored)


_Question = tuple[bool, tuple[str, ...]]
"""Whether an auxiliary stands behind the asking word, and the folds behind that."""


def _question(reading: Reading) -> _Question:
    tokens = [token for token in outline(reading).tokens if token.script is not SYMBOL]
    if not tokens or tokens[0].text not in _ASKING or len(tokens) > _LONGEST:
        return False, ()
    start = 1
    while start < len(tokens) and tokens[start].text in _AUXILIARIES:
        start += 1
    rest = tuple(token.fold for token in tokens[start:] if token.text not in _SKIPPED)
    return start > 1, rest


def _is_doer(question: _Question) -> bool:
    _, rest = question
    return len(rest) > 1 and rest[0] not in _BOTH_WAYS


def _is_object_of(question: _Question, doer: _Question) -> bool:
    """Return whether the same verb stands at the end, and the same thing before it."""
    has_auxiliary, rest = question
    verb, *objects = doer[1]
    if not has_auxiliary or len(rest) != len(doer[1]):
        return False
    things = [word for word in objects if word not in _PARTICLES]
    behind = [word for word in objects if word in _PARTICLES]
    return bool(things) and [*things, verb, *behind] == list(rest)


def _in_chinese(asked: Reading, stored: Reading) -> Difference | None:
    mine, theirs = asked.fact(_sought), stored.fact(_sought)
    if not (mine and theirs) or mine == theirs:
        return None
    ours, others = outline(asked), outline(stored)
    if ours.content != others.content:
        return None
    return Difference(Kind.ORDER, mine, theirs)


def _sought(reading: Reading) -> str:
    han = outline(reading).han
    if not han or len(han) > 2 * _LONGEST:
        return ""
    is_doer, is_object = _CHINESE_DOER.search(han), _CHINESE_OBJECT.search(han)
    if bool(is_doer) == bool(is_object):
        return ""
    return "doer" if is_doer else "object"


def other_asked(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return what is asked for, if one text asks who does it, the other to whom it is done.

    Who followed Ann; who did Ann follow. For texts of the same words.
    """
    mine, theirs = asked.fact(_asked_for), stored.fact(_asked_for)
    return (mine, theirs) if mine and theirs and mine != theirs else None


def _asked_for(reading: Reading) -> str:
    texts = [token.text for token in outline(reading).tokens]
    for index, text in enumerate(texts):
        if text in _ASKED_OF:
            is_done = not _DO.isdisjoint(texts[index + 1 : index + 1 + _BEFORE_DO])
            return "who it is done to" if is_done else "who does it"
    return ""
