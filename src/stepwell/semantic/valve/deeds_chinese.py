"""What is done in a Chinese text.

The tagger is often wrong about single words (邻居 is a verb to it), so a verb is any word between
two that may take part; what has changed places is then found around the same word.
"""

from collections.abc import Iterator, Sequence

from stepwell.semantic.valve.deeds import NOBODY, PERSONS, Deed, Party
from stepwell.semantic.valve.reading import HAN, Reading, Word

_OF = "的"
_AUXILIARIES = frozenset(
    """
    能 可以 可 会 要 想 该 应该 必须 需要 得 不 没 没有 为什么 为何 为啥 怎么 怎样 如何 咋 怎么样
    有没有 该不该 要不要 能不能 可不可以
    会不会 是否 能否 可否 有权 还 就 也 都 再 才 一直 总 总是 老
    老是 经常 已经
    """.split()
)
"""What may stand between a verb and its doer."""
_BEHIND = frozenset("了 着 过 到 给 一下".split())
"""What may stand between a verb and what it is done to."""
_NO_VERBS = frozenset(
    """
    是 就是 也是 都是 有 在 去 来 让 使 叫 请 说 把 被 向 从 跟 和 与 同
    对 比 为 替 由 往 于 以 及 或 还是
    """.split()
).union(_AUXILIARIES, _BEHIND)
_NO_THINGS = ("u", "y", "p", "r", "c", "d", "m", "q", "w", "l")
"""Tags of particles, pronouns, adverbs, numerals."""
_MAY = "能会"


def chinese_deeds(reading: Reading) -> Iterator[Deed]:
    """Yield every word that may be a verb, with those before and behind it."""
    words = [part for word in reading.words for part in _parts(word)]
    for index, word in enumerate(words):
        if word.script is HAN and not (word.text in _NO_VERBS or word.text in PERSONS):
            doer = _before(words, index - 1)
            for other in _behind(words, index + 1) if doer.head else ():
                yield Deed(word.text, doer, other)


def _parts(word: Word) -> tuple[Word, ...]:
    """Take apart what the segmenter joins: 我能, 我爸, 能用."""
    first, rest = word.text[:1], word.text[1:]
    if rest and (first in PERSONS or (first in _MAY and word.tag == "v")) and word.script is HAN:
        tag = "v" if rest in _AUXILIARIES or first in _MAY else word.tag
        return word._replace(text=first, tag="r"), word._replace(text=rest, tag=tag)
    return (word,)


def _before(words: Sequence[Word], at: int) -> Party:
    """Return the doer: 我, 我爸, 邻居的狗."""
    while at >= 0 and words[at].text in _AUXILIARIES:
        at -= 1
    if at < 0:
        return NOBODY
    if words[at].text in PERSONS:
        return Party(PERSONS[words[at].text])
    return Party(words[at].text, _owner(words, at - 1)) if _is_thing(words[at]) else NOBODY


def _owner(words: Sequence[Word], at: int) -> str:
    if at >= 1 and words[at].text == _OF:
        at -= 1
    elif at < 0 or words[at].text not in PERSONS:
        return ""
    return PERSONS.get(words[at].text, words[at].text)


def _behind(words: Sequence[Word], at: int) -> Iterator[Party]:
    """Yield the one it is done to: 我, 我的卡, 我老婆的卡; of 欠我工资 both I and what is mine."""
    end = len(words)
    while at < end and words[at].text in _BEHIND:
        at += 1
    owner = ""
    while at < end and (words[at].text in PERSONS or _is_thing(words[at])):
        name = PERSONS.get(words[at].text, words[at].text)
        following = words[at + 1] if at + 1 < end else None
        if following is not None and following.text == _OF:
            owner, at = name, at + 2
            continue
        yield Party(name, owner)
        if words[at].text not in PERSONS:
            return
        owner, at = name, at + 1


def _is_thing(word: Word) -> bool:
    is_word = word.script is HAN and word.text not in _NO_VERBS
    return is_word and word.text not in PERSONS and not word.tag.startswith(_NO_THINGS)
