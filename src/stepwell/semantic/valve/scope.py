"""Refuses another scope: all, some, only, except; for children, for adults."""

import re
from enum import Enum, auto

from stepwell.semantic.valve.alignment import are_stories
from stepwell.semantic.valve.condition import condition
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.plurality import other_plurality
from stepwell.semantic.valve.qualifier import qualifier
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.restriction import restricted
from stepwell.semantic.valve.standing import other_standing
from stepwell.semantic.valve.whole import whole


class Scope(Enum):
    """Of how many, or how far, something is asked."""

    ALL = auto()
    SOME = auto()
    MOST = auto()
    ONE = auto()
    ONLY = auto()
    JUST = auto()
    """May stand for "only", or for nothing."""
    EXCEPT = auto()
    BOTH = auto()
    EITHER = auto()
    ALWAYS = auto()
    SOMETIMES = auto()
    AT_LEAST = auto()
    AT_MOST = auto()
    FORMERLY = auto()
    EXACTLY = auto()
    TOTAL = auto()
    """All of them taken together."""
    EACH = auto()
    """A day, a piece."""
    TOGETHER = auto()
    OR = auto()


_ENGLISH: dict[Scope, tuple[str, str]] = {
    Scope.ALL: (
        "all every everyone everybody everything each entire whole",
        (
            r"\b(?:all|every|everyone|everybody|everything|each|entire|whole)\b(?! (?:time|day"
            r"|night|week|year|month|morning|evening|about|right|of a sudden|over|else|in all))"
        ),
    ),
    Scope.SOME: (
        "some few several certain part any not least there",
        (
            r"\b(?:some|a few|several|certain|part of|any|not all|at least one"
            r"|(?:is|are) there (?:a |an )?\w+ (?:that|which|who))\b"
        ),
    ),
    Scope.MOST: (
        "most majority mostly mainly rest",
        (
            r"\b(?:most of|most (?:people|men|women|countries|companies|users|states)|majority"
            r"|mostly|mainly|the rest of)\b"
        ),
    ),
    Scope.ONE: ("single one individual", r"\b(?:single|one of|just one|only one|individual)\b"),
    Scope.ONLY: (
        "only solely exclusively nothing",
        r"\b(?:only|solely|exclusively|nothing but)\b",
    ),
    Scope.JUST: ("just", r"\bjust\b"),
    Scope.EXCEPT: (
        "except besides apart other aside excluding but",
        (
            r"\b(?:except|besides|apart from|other than|aside from|excluding"
            r"|but not (?!since|yet))\b"
        ),
    ),
    Scope.BOTH: ("both", r"\bboth\b"),
    Scope.EITHER: ("either other", r"\b(?:either|one or the other)\b"),
    Scope.ALWAYS: (
        "always every constantly forever cases never",
        r"\b(?:always|every time|constantly|forever|in all cases|never)\b",
    ),
    Scope.SOMETIMES: (
        "sometimes occasionally time seldom rarely usually often hardly barely scarcely",
        (
            r"\b(?:sometimes|occasionally|from time to time|seldom|rarely|usually|(?<!how )often"
            r"|hardly|barely|scarcely)\b"
        ),
    ),
    Scope.AT_LEAST: (
        "least less fewer minimum more older",
        (
            r"\b(?:at least|(?<!no )more than|no less than|no fewer than|minimum of|or more"
            r"|or older)\b"
        ),
    ),
    Scope.AT_MOST: (
        "most more up maximum less younger fewer",
        (
            r"\b(?:at most|(?<!no )(?:less|fewer) than|no more than|up to \d|maximum of|or less"
            r"|or younger|or fewer)\b"
        ),
    ),
    Scope.FORMERLY: (
        "used use formerly",
        r"\b(?:used? to be|did [^?.]{1,40} use to|formerly)\b",
    ),
    Scope.EXACTLY: (
        "exactly precisely",
        r"\b(?:exactly|precisely) (?:\d|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    ),
    Scope.TOTAL: (
        "total altogether combined sum",
        r"\b(?:in total|total|altogether|combined|in sum)\b",
    ),
    Scope.EACH: (
        "each per every apiece daily weekly monthly hourly nightly",
        (
            r"\b(?:(?:each|per|every) (?:hour|day|night|week|month|year|person|guest|piece|item"
            r"|user|student|employee|visit|trip)|apiece|daily|weekly|monthly|hourly|nightly)\b"
        ),
    ),
    Scope.TOGETHER: (
        "simultaneously same together once",
        r"\b(?:simultaneously|at the same time|together|at once)\b",
    ),
    Scope.OR: ("or", r"\bor\b"),
}
"""Words one of which must be there, and what is looked for then."""
_PATTERNS = {scope: re.compile(pattern) for scope, (_, pattern) in _ENGLISH.items()}
_TRIGGERS: dict[str, frozenset[Scope]] = {
    word: frozenset(scope for scope, (words, _) in _ENGLISH.items() if word in words.split())
    for word in " ".join(words for words, _ in _ENGLISH.values()).split()
}
_CHINESE = tuple(
    (scope, re.compile(pattern))
    for scope, pattern in (
        (Scope.ALL, r"所有|全部|全体|一切|每[个一条天次位人只种]|任何|整个|各个|全都|统统"),
        (
            Scope.SOME,
            r"部分|有些|某些|一部分|有的|个别|少数|(?:^|[,。?])(?:是否|是不是)?有[^的没?,。]{1,6}会",
        ),
        (Scope.MOST, r"大多数|大部分|多数|绝大多数|其余"),
        (Scope.ONE, r"单个|一个|其中一个|某一个|某个|单独"),
        (
            Scope.ONLY,
            (
                r"(?<![一两几这那])只[有能要会用限](?!好|少)|仅(?!供)|唯一|光是|单单"
                r"|(?<![一两几这那\d])只(?=[^?,。只]{1,3}[一二两三四五六七八九十\d])"
            ),
        ),
        (Scope.EXCEPT, r"除了|除去|除.{1,8}[之以]?外|以外|之外"),
        (Scope.BOTH, r"两者都|两个都|都[能可要]"),
        (Scope.EITHER, r"任选|二选一|之一"),
        (Scope.ALWAYS, r"总是|一直|始终|永远|每次|从不|从来不"),
        (Scope.SOMETIMES, r"有时|偶尔|经常|常常|很少"),
        (Scope.AT_LEAST, r"至少|最少|不少于|以上|起码"),
        (Scope.AT_MOST, r"至多|最多|不超过|以下|以内"),
        (Scope.FORMERLY, r"曾经|曾是|以前是|原来是"),
        (Scope.EXACTLY, r"(?:恰好|正好|刚好)[^?,。]{0,3}[一二两三四五六七八九十\d]"),
        (Scope.TOTAL, r"总共|一共|合计|总计|共计|封顶|全天|加起来"),
        (Scope.EACH, r"每(?:一)?(?:个?小时|天|日|晚|周|个?月|年|人|件|位|次|斤|份)"),
        (Scope.TOGETHER, r"同时|一起|一块"),
    )
)
_APART = frozenset(
    map(
        frozenset,
        (
            (Scope.ALL, Scope.SOME),
            (Scope.ALL, Scope.MOST),
            (Scope.ALL, Scope.ONE),
            (Scope.ALL, Scope.ONLY),
            (Scope.ALL, Scope.EXCEPT),
            (Scope.MOST, Scope.SOME),
            (Scope.MOST, Scope.ONE),
            (Scope.BOTH, Scope.EITHER),
            (Scope.ALWAYS, Scope.SOMETIMES),
            (Scope.AT_LEAST, Scope.AT_MOST),
            (Scope.AT_LEAST, Scope.EXACTLY),
            (Scope.AT_MOST, Scope.EXACTLY),
            (Scope.TOTAL, Scope.EACH),
            (Scope.ONLY, Scope.EXCEPT),
            (Scope.TOGETHER, Scope.OR),
        ),
    )
)
_ALONE = frozenset((Scope.ONLY, Scope.EXCEPT, Scope.FORMERLY))
"""These change what is asked even if the other text has nothing of the kind."""


def scopes(reading: Reading) -> frozenset[Scope]:
    """Return the scopes a text names."""
    mine = outline(reading)
    found: set[Scope] = set()
    if not _TRIGGERS.keys().isdisjoint(mine.texts):
        maybe = {scope for text in mine.texts for scope in _TRIGGERS.get(text, ())}
        found = {scope for scope in maybe if _PATTERNS[scope].search(mine.english)}
    if mine.han:
        found |= {scope for scope, pattern in _CHINESE if pattern.search(mine.han)}
    return frozenset(found)


def scope(asked: Reading, stored: Reading) -> Difference | None:
    """Return the scopes of which one text has one that the other cannot mean."""
    mine, theirs = asked.fact(scopes), stored.fact(scopes)
    if (
        mine != theirs
        and _differ(mine - theirs, theirs - mine)
        and not are_stories(outline(asked), outline(stored))
    ):
        return Difference(Kind.SCOPE, _names(mine), _names(theirs))
    words = (
        other_standing(asked, stored)
        or restricted(asked, stored)
        or condition(asked, stored)
        or whole(asked, stored)
        or other_plurality(asked, stored)
        or qualifier(asked, stored)
    )
    return Difference(Kind.SCOPE, *words) if words else None


def _differ(more: frozenset[Scope], less: frozenset[Scope]) -> bool:
    alone = _ALONE & (more | less)
    if Scope.JUST in more | less:
        alone -= {Scope.ONLY}
    if alone:
        return True
    return any(frozenset((one, other)) in _APART for one in more for other in less)


def _names(scopes: frozenset[Scope]) -> str:
    return " ".join(sorted(scope.name.lower() for scope in scopes))
