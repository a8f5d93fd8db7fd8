"""What a question is restricted to: in Java, for children, during pregnancy."""

import re
from dataclasses import dataclass

from stepwell.semantic.valve.alignment import unmatched
from stepwell.semantic.valve.answer import Asks
from stepwell.semantic.valve.asks import asks
from stepwell.semantic.valve.asks_english import DEEDS
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.entity import is_slip
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import NUMBER, Reading

_PREPOSITIONS = frozenset(
    "in for on with at during from under after before among within without near inside outside "
    "via until since against".split()
)
_GOVERNING = _PREPOSITIONS | frozenset("to by onto into".split())
"""The last four govern many things; what is meant is a place or a means."""
_ARTICLES = frozenset("a an the my your his her our their this any some".split())
_SHORT = 12
"""Words of a short text."""
_BY_THE_WAY = frozenset(
    map(
        fold,
        f"""
        bit little now right away immediately asap quickly kindly hey down up go ahead made whole
        entire level mode placed pending permanently existing {DEEDS}
        """.split(),
    )
)
"""What a command may say or not."""
_ONE_THING = {
    fold(word): group
    for group, words in enumerate(
        (
            "street road lane",
            "phone mobile cellphone smartphone telephone",
            "house home flat apartment",
            "photo picture image pic",
            "film movie",
            "shop store",
            "car auto vehicle automobile",
            "job work",
            "teacher instructor tutor",
            "kid child",
            "university college",
            "town city",
            "firm company business",
            "cash money",
            "item product article purchase",
            "laptop notebook",
            "telly tv television",
            "day night",
            "autumn fall",
        )
    )
    for word in words.split()
}
"""Things of which one is said for the other."""
_LONGEST = 30
"""In a longer text much is said by the way."""
_GENERAL = frozenset(
    map(
        fold,
        """
        world life time day way general today now moment future past thing aspect case order term
        detail mind fact short long real internet online home house account app application
        website site system machine computer device practice practise work year example free
        person someone purpose reason use usage help advance market field area country place
        society history question answer opinion context process program project least first last
        average total full minute second hour week month night morning evening step point view
        side level fluency confidence ease accuracy quora web language company job career school
        college university business people study exam problem issue meantime data file text image
        code method word sentence document message patient brief scale half size shape length
        think movie film name other offence workout family environment association upcoming while
        awhile
        item list response number
        """.split(),
    )
)
"""What a preposition governs without restricting anything."""
_ENGLISH_GROUPS = """
child kid; baby infant newborn toddler; teenager teen adolescent; adult grownup; senior elderly
pensioner; pregnant pregnancy; breastfeeding; woman girl female lady; man boy male guy; diabetic
diabetes; vegan; vegetarian; beginner novice newbie; student; freelancer contractor; employee;
foreigner; veteran; nonprofit charity; tenant renter; landlord; dog puppy; cat
kitten; rabbit; horse; bird; fish; hamster
"""
_CHINESE_GROUPS = """
孕妇 孕期 怀孕; 哺乳期; 儿童 小孩 孩子 宝宝 幼儿; 婴儿 新生儿; 老人 老年人 中老年; 女性 女生
女人 女士 女孩; 男性 男生 男人 男士 男孩; 学生 大学生; 成人 成年人; 新手 初学者 小白; 糖尿病;
经期 月经; 未成年; 外国人; 留学生; 青少年; 产妇 月子; 狗 狗狗 小狗; 猫 猫咪 小猫; 企业; 个体户
"""


def _classes(lines: str) -> dict[str, str]:
    groups = [group.split() for group in lines.split(";")]
    return {fold(word): group[0] for group in groups for word in group}


_GROUPS = _classes(_ENGLISH_GROUPS)
_GROUPS_IN_CHINESE = _classes(_CHINESE_GROUPS)
_CHINESE_GROUP = re.compile("|".join(sorted(_GROUPS_IN_CHINESE, key=len, reverse=True)))


@dataclass(frozen=True, slots=True)
class Restrictions:
    """What a text is about whom or where."""

    objects: frozenset[str]
    """Folds of words that are all a preposition governs."""
    groups: dict[str, str]
    """Words for kinds of people and animals, and the kind."""
    governed: dict[str, str]
    """Last words behind a preposition, with or without an article, and the preposition."""


def restrictions(reading: Reading) -> Restrictions:
    """Return the restrictions of a text."""
    mine = outline(reading)
    objects: set[str] = set()
    governed: dict[str, str] = {}
    for at in [at for at, text in enumerate(mine.texts) if text in _GOVERNING]:
        preposition = mine.texts[at]
        has_article, phrase = _phrase(mine.tokens, at + 1)
        if not phrase or not _is_thing(phrase[-1]):
            continue
        if preposition in _PREPOSITIONS:
            governed[phrase[-1].fold] = preposition
            if len(phrase) == 1:
                objects.add(phrase[0].fold)
        elif has_article or (preposition == "by" and len(phrase) == 1):  # By train.
            governed[phrase[-1].fold] = preposition
    groups = {word: _GROUPS[word] for word in mine.folds if word in _GROUPS}
    if mine.han:
        groups |= {word: _GROUPS_IN_CHINESE[word] for word in _CHINESE_GROUP.findall(mine.han)}
    return Restrictions(frozenset(objects - _GENERAL), groups, governed)


def _phrase(tokens: tuple[Token, ...], start: int) -> tuple[bool, tuple[Token, ...]]:
    """Return whether an article stands at ``start``, and the words of content behind it."""
    first = start
    while first < len(tokens) and tokens[first].text in _ARTICLES:
        first += 1
    end = first
    while end < len(tokens) and tokens[end].has_content:
        end += 1
    return first > start, tokens[first:end]


def _is_thing(token: Token) -> bool:
    return token.script is not NUMBER and not token.text.endswith("ing")


def restricted(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return what only one text is restricted to, or what each is that the other is not."""
    ours, others = outline(asked), outline(stored)
    if max(len(ours.tokens), len(others.tokens)) > _LONGEST:
        return None
    mine = set(asked.fact(restrictions).groups.values())
    theirs = set(stored.fact(restrictions).groups.values())
    if mine - theirs and theirs - mine:
        return " ".join(sorted(mine - theirs)), " ".join(sorted(theirs - mine))
    more, less = unmatched(ours, others), unmatched(others, ours)
    if more and not less:
        added = _added(asked, stored, more) or _commanded(asked, stored, more)
        return (added, "") if added else None
    if less and not more:
        added = _added(stored, asked, less) or _commanded(stored, asked, less)
        return ("", added) if added else None
    return _replaced(asked, stored, more, less)


def _commanded(longer: Reading, shorter: Reading, more: frozenset[str]) -> str:
    """Return what only one of two short commands says, but for what is said by the way."""
    if max(len(longer.words), len(shorter.words)) > _SHORT:
        return ""
    if Asks.DEED not in longer.fact(asks) or Asks.DEED not in shorter.fact(asks):
        return ""
    return " ".join(sorted(more - _BY_THE_WAY))


def _replaced(
    asked: Reading, stored: Reading, more: frozenset[str], less: frozenset[str]
) -> tuple[str, str] | None:
    """Return two things behind one preposition in short texts that are the same but for them."""
    if len(more) != 1 or len(less) != 1 or max(len(asked.words), len(stored.words)) > _SHORT:
        return None
    (mine,), (theirs,) = more, less
    preposition = asked.fact(restrictions).governed.get(mine)
    if preposition is None or preposition != stored.fact(restrictions).governed.get(theirs):
        return None
    if _ONE_THING.get(mine, mine) == _ONE_THING.get(theirs, theirs) or is_slip(mine, theirs):
        return None
    return mine, theirs


def _added(longer: Reading, shorter: Reading, more: frozenset[str]) -> str:
    """Return the restrictions among ``more``, which only the longer text says."""
    # What only looks like a counterpart may be one: cash, cashpoint.
    if not shorter.fact(restrictions).objects <= outline(longer).content:
        return ""
    words = longer.fact(restrictions).objects & more
    if not shorter.fact(restrictions).groups:
        words |= longer.fact(restrictions).groups.keys() & more
    return " ".join(sorted(words))
