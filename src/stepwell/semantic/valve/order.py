"""Refuses the same words in other roles: from A to B, from B to A."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.doers import other_doer
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.exchange import exchanged, places, things
from stepwell.semantic.valve.inquired import other_asked
from stepwell.semantic.valve.lending import other_way
from stepwell.semantic.valve.moved import moved
from stepwell.semantic.valve.opposites import opposed, shipped
from stepwell.semantic.valve.outline import Outline, Token, outline
from stepwell.semantic.valve.reading import HAN, SYMBOL, Reading
from stepwell.semantic.valve.reference import other_reference
from stepwell.semantic.valve.sums import sums
from stepwell.semantic.valve.voice import other_voice


def _words(text: str) -> frozenset[str]:
    """Return words and their folds."""
    return frozenset(text.split()).union(map(fold, text.split()))


_IDLE = _words(
    """
    a an the this that these those please just do does did is are was were be been being has
    have had will would can could should shall may might must 's it there i me my you your we
    our us to? 的 了 吗 呢 吧 啊 呀 嘛 么 地 得 着 过 请问 请 一下 是不是 会 能 可以 就 都 也 还
    很 我 你 我们 ? ! . ; : 。 by 被 把
    """
)
_PASSIVE = frozenset("be been being is are was were get got".split())
_JOINS = _words(
    """
    and or vs versus & / , + ( ) with between nor 又 和 与 跟 同 及 以及 或 或者 还是 、
    """
)
_MUTUAL = _words(
    """
    relate marry friend acquaintance connect similar differ different difference equal same
    identical comparable compare near next distance far cousin sibling twin neighbor partner
    date meet match compatible between versus vs among synonym parallel adjacent touch share
    together mix combine interact close engage resemble intersect overlap border merge 区别 差别
    不同 一样 相同 差异 相似 关系 距离 相距 比较 相等 等于 朋友 结婚 同时 一起 搭配 混合 多远
    哪个 哪种 哪款 哪家 哪一个 绑定 相当于 乘 乘以 加 加上 plus time multiply add 同义词 近义词
    相比 对比 差 隔
    """
)
"""With such a word the two may change places."""
_ADVERBS = frozenset("怎么 怎样 如何 为什么 为何 咋 为啥 让 使 将 how why when".split())
"""They stand where they please and give no word a role."""
_MARKERS = _words(
    """
    from to into than by before after over under without in on of for with against through
    toward towards as because if until since 从 到 比 把 被 给 向 由 用 成 成为 为 至 往 对 让
    叫 将 在 于
    """
)
_PERSONS = {
    word: group[0]
    for group in (
        ("我", "我们", "i", "me", "my"),
        ("你", "您", "你们", "you", "your"),
        ("他", "他们", "he", "him", "his"),
        ("她", "她们", "she", "her"),
    )
    for word in group
}
_WITHOUT_ROLE = _IDLE | _ADVERBS | _PERSONS.keys()
_QUESTIONS = _words(
    """
    what which who whom whose when where why how 什么 谁 哪 哪里 哪儿 哪个 哪些 哪座 哪种 怎么
    怎样 如何 为什么 为何 多少 几 何时 多久 多大 多远 多高 几个 啥 咋 怎么样 怎么办 是 有 有没有
    """
)
_COPULAS = _words("是 叫 有 在 属于 be")
_INTO = frozenset(("into", "onto"))
"""Behind these nothing is mutual: merge A into B."""
_DEEDS = frozenset(
    "吃 打败 追 喜欢 爱 怕 害怕 咬 杀 帮 教 抓 捕食 讨厌 收购 影响 导致 引起 造成 依赖 调用 继承 "
    "攻击 骗 打".split()
)
"""What does it and what it is done to are asked for in one form: 什么动物吃蛇, 蛇吃什么动物."""
_WHO = frozenset((("谁",), ("who",), ("whom",)))
_PLAIN = _JOINS | _MARKERS | _QUESTIONS | frozenset(("", "not", "不", "没有", "一个", "一", "都"))
"""Beside these, a word has no role to change."""
_PARTICLES = frozenset("up down on off in out away back online".split())
_WHO_DOES_WHAT = 3
"""Words a frame must have for an active or passive verb to matter."""
_MOVES_IN = 8
"""Words a frame must have for single words to be followed from clause to clause."""
_LONGEST = 60
"""Longer rests are texts, not questions; what is swapped in them is not looked for."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The words of a text that can change places, in order."""

    frame: tuple[str, ...]
    """Folds, without articles, auxiliaries and signs; commas stay."""
    signs: tuple[str, ...]
    """The same with Chinese words as single characters: words are cut differently in 狗粮."""
    marked: frozenset[tuple[str, str]]
    """Every word of content and the preposition right before it."""
    neighbours: dict[str, tuple[str, str]]
    """By every fold that occurs once in the frame: those before and behind it."""
    persons: tuple[str, ...]
    """Who speaks and who is spoken to, in order."""
    is_passive: bool
    """Whether something is done by somebody."""


def roles(reading: Reading) -> Roles:
    """Return what the words of a text are placed by."""
    mine = outline(reading)
    tokens = [token for token in mine.tokens if token.text not in _WITHOUT_ROLE]
    frame = tuple([token.fold for token in tokens])
    return Roles(
        frame=frame,
        signs=_signs(tokens) if mine.han else tuple([fold for fold in frame if fold not in _IDLE]),
        marked=_marked(mine),
        neighbours=_neighbours(frame),
        persons=tuple([_PERSONS[text] for text in mine.texts if text in _PERSONS]),
        is_passive=_is_passive(mine),
    )


def _signs(frame: Iterable[Token]) -> tuple[str, ...]:
    signs: list[str] = []
    for token in frame:
        chars = token.text if token.script is HAN else (token.fold,)
        signs.extend(char for char in chars if char not in _IDLE)
    return tuple(signs)


def _neighbours(frame: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    padded = ("", *frame, "")
    beside = dict(zip(frame, zip(padded, padded[2:], strict=False), strict=True))
    if len(beside) == len(frame):
        return beside
    counts = Counter(frame)
    return {word: words for word, words in beside.items() if counts[word] == 1}


def _marked(mine: Outline) -> frozenset[tuple[str, str]]:
    marked: set[tuple[str, str]] = set()
    marker = ""
    for token in mine.tokens:
        if token.text in _MARKERS:
            marker = token.text
        elif token.has_content:
            marked.add((token.fold, marker))
            marker = ""
        elif token.script is SYMBOL:
            marker = ""
    return frozenset(marked)


def _is_passive(mine: Outline) -> bool:
    texts = mine.texts
    if "by" in texts:
        return not _PASSIVE.isdisjoint(texts[: texts.index("by")])
    if "被" in texts:  # With whom it is done by: 手机被偷 says no more than 手机偷了.
        behind = mine.tokens[texts.index("被") + 1 :]
        return sum(token.has_content or token.text in _PERSONS for token in behind) > 1
    return False


def order(asked: Reading, stored: Reading) -> Difference | None:
    """Return the two things that have changed places, whichever text was asked."""
    if asked.text <= stored.text:
        return _order(asked, stored)
    # What moved is counted from the first of the two: let it be the same one.
    found = _order(stored, asked)
    return None if found is None else Difference(found.kind, found.stored, found.asked)


def _order(asked: Reading, stored: Reading) -> Difference | None:
    mine, theirs = asked.fact(roles), stored.fact(roles)
    words = other_voice(asked, stored) or other_doer(asked, stored) or other_way(asked, stored)
    if words:
        return Difference(Kind.ORDER, *words)
    if mine.is_passive != theirs.is_passive:
        if mine.frame == theirs.frame and len(mine.frame) >= _WHO_DOES_WHAT:
            return Difference(Kind.ORDER, _voice(mine), _voice(theirs))
        return None
    if mine.frame == theirs.frame:
        if mine.persons != theirs.persons and sorted(mine.persons) == sorted(theirs.persons):
            return Difference(Kind.ORDER, " ".join(mine.persons), " ".join(theirs.persons))
        return None
    return (
        _swapped(asked, stored)
        or _crossed(mine, theirs)
        or _exchanged(mine, theirs)
        or _rebound(asked, stored)
        or _referred(asked, stored)
        or _moved(asked, stored)
    )


def _rebound(asked: Reading, stored: Reading) -> Difference | None:
    """Return two things of which each stands where the other stood, whatever is around them."""
    if len(asked.fact(things) & stored.fact(things)) < 2:  # noqa: PLR2004 - two change places
        return None
    here, there = asked.fact(roles).neighbours, stored.fact(roles).neighbours
    if [word for word in here if word in there] == [word for word in there if word in here]:
        return None
    mine, theirs = asked.fact(places), stored.fact(places)
    found = exchanged(mine, theirs)
    # "A is higher than B" and "B is lower than A" are the same.
    if found is None or opposed(asked.fact(shipped().find), stored.fact(shipped().find)):
        return None
    is_short = not (mine.is_long and theirs.is_long)
    if is_short and not (found[0].isdecimal() or _MUTUAL.isdisjoint(mine.folds + theirs.folds)):
        return None
    if found[0].isdecimal() and asked.fact(sums):  # Compared with the numbers: 5 plus 3, 3 plus 5.
        return None
    one, other = found
    return _difference((one,), (other,))


def _referred(asked: Reading, stored: Reading) -> Difference | None:
    words = other_reference(asked, stored)
    return Difference(Kind.ORDER, *words) if words else None


def _moved(asked: Reading, stored: Reading) -> Difference | None:
    lengths = len(asked.fact(roles).frame), len(stored.fact(roles).frame)
    if min(lengths) < _MOVES_IN or not (asked.is_chinese and stored.is_chinese):
        return None
    words = moved(asked, stored)
    return Difference(Kind.ORDER, *words) if words else None


def _voice(roles: Roles) -> str:
    return "passive" if roles.is_passive else "active"


def _difference(first: tuple[str, ...], second: tuple[str, ...]) -> Difference:
    one, other = " ".join(first), " ".join(second)
    return Difference(Kind.ORDER, f"{one}, {other}", f"{other}, {one}")


_Words = tuple[str, ...]


def _swapped(asked: Reading, stored: Reading) -> Difference | None:
    """Return two runs of words that have changed places, all else being the same."""
    mine, theirs = asked.fact(roles), stored.fact(roles)
    if len(mine.signs) != len(theirs.signs) or sorted(mine.signs) != sorted(theirs.signs):
        return None
    ours, others = mine.frame, theirs.frame
    if sorted(ours) == sorted(others):
        words = other_asked(asked, stored)
        if words:
            return Difference(Kind.ORDER, *words)
    else:
        ours, others = mine.signs, theirs.signs
    for first, between, second, behind in _swaps(ours, others):
        if not between:
            if _is_compound(first[0], second[0], outline(asked), outline(stored)):
                return _difference(first, second)
        elif not _is_list(between, behind):
            return _difference(first, second)
    return None


def _swaps(mine: _Words, theirs: _Words) -> Iterator[tuple[_Words, _Words, _Words, _Words]]:
    """Yield what may have changed places: the first, what is between, the second, and behind."""
    start, end = 0, len(mine)
    while start < end and mine[start] == theirs[start]:
        start += 1
    while end > start and mine[end - 1] == theirs[end - 1]:
        end -= 1
    around, behind = mine[:start] + mine[end:], mine[end:]
    mine, theirs = mine[start:end], theirs[start:end]
    size = len(mine)
    if size > _LONGEST:
        return
    is_one_way = _MUTUAL.isdisjoint(mine + around)
    for first in range(1, size):
        if theirs[size - first :] != mine[:first]:
            continue
        for second in range(1, size - first + 1):
            if (
                theirs[:second] == mine[size - second :]
                and theirs[second : size - first] == mine[first : size - second]
                and _has_roles(mine[:first], mine[first : size - second], mine[size - second :])
                and (is_one_way or not _INTO.isdisjoint(mine[first : size - second]))
            ):
                yield mine[:first], mine[first : size - second], mine[size - second :], behind


def _has_roles(first: _Words, between: _Words, second: _Words) -> bool:
    """Return whether two runs have roles: 谁打败X, X打败谁; but not in "X is what?"."""
    asked = [run for run in (first, second) if not _QUESTIONS.isdisjoint(run)]
    if not asked or _DEEDS.issuperset(between):
        return True
    return all(run in _WHO for run in asked) and not _COPULAS.issuperset(between)


def _is_list(between: _Words, behind: _Words) -> bool:
    """Return whether two things are only listed: A and B, A maps and B maps."""
    if set(between) <= _JOINS or (between[0] in _JOINS and between[-1] in _JOINS):
        return True
    return between[-1] in _JOINS and between[:-1] == behind[: len(between) - 1]


def _is_compound(first: str, second: str, mine: Outline, theirs: Outline) -> bool:
    """Return whether two words are right side by side: chocolate milk, milk chocolate."""
    if not (first.isascii() and second.isascii()):
        return False
    pairs = _side_by_side(first, second, mine)
    return not pairs.isdisjoint((one, other) for other, one in _side_by_side(second, first, theirs))


def _side_by_side(first: str, second: str, text: Outline) -> set[tuple[str, str]]:
    """Return how two folds stand, where they stand side by side and are no phrasal verb."""
    return {
        (one.text, other.text)
        for one, other in pairwise(text.tokens)
        if one.fold == first and other.fold == second
        if _PARTICLES.isdisjoint((one.text, other.text))
    }


def _crossed(mine: Roles, theirs: Roles) -> Difference | None:
    """Return two words each of which has the other's preposition: from A to B, from B to A."""
    only_mine, only_theirs = mine.marked - theirs.marked, theirs.marked - mine.marked
    if len({word for word, _ in only_mine} & {word for word, _ in only_theirs}) < 2:  # noqa: PLR2004 - two change places
        return None
    once, now = _once(only_mine), _once(only_theirs)
    moved = [(word, was, now[word]) for word, was in once.items() if word in now]
    for word, was, becomes in moved:
        for other, other_was, other_becomes in moved:
            if word < other and was == other_becomes and other_was == becomes and was and becomes:
                return _difference((word,), (other,))
    return None


def _once(marked: frozenset[tuple[str, str]]) -> dict[str, str]:
    """Return the prepositions of words that have one only."""
    counts = Counter(word for word, _ in marked)
    return dict(sorted(pair for pair in marked if counts[pair[0]] == 1))


def _exchanged(mine: Roles, theirs: Roles) -> Difference | None:
    """Return two words each of which stands beside the other's neighbour, in long texts too."""
    if not _MUTUAL.isdisjoint(mine.frame):
        return None
    for side in (0, 1):
        moved: dict[tuple[str, str], str] = {}
        for word, beside in mine.neighbours.items():
            if word not in theirs.neighbours or word in _PLAIN:
                continue
            was, becomes = beside[side], theirs.neighbours[word][side]
            if was == becomes or was in _PLAIN or becomes in _PLAIN:
                continue
            if (becomes, was) in moved:
                return _difference((moved[becomes, was],), (word,))
            moved[was, becomes] = word
    return None
