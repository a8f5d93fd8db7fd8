"""What one text wants and the other hinders: keep it burning, keep it from burning; 让, 防止."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import SYMBOL, Reading


class Aim(NamedTuple):
    """A deed or a thing, and whether it is hindered or brought about."""

    what: str
    is_deed: bool
    is_hindered: bool

    @property
    def turned(self) -> "Aim":
        """The opposite."""
        return self._replace(is_hindered=not self.is_hindered)


class Aims(NamedTuple):
    """What a text wants to happen or not."""

    sure: frozenset[Aim]
    may_be: frozenset[Aim]
    """Every word behind *make* or *let*: which is the verb, nothing tells."""


def _folds(words: str) -> frozenset[str]:
    return frozenset(map(fold, words.split()))


_HINDERING = _folds("stop prevent avoid discourage")
_KEEP = fold("keep")
_GETTING = _folds("get cause catch trigger induce")
"""Before a thing they bring it about, as others do not: help with a cold."""
_MAKING = _folds("make let help")
_MAKING_TO = _folds("get help allow enable force cause teach train")
"""What is brought about stands behind "to"."""
_CUES = _HINDERING | _GETTING | _MAKING | _MAKING_TO | {_KEEP}
_TURNING = frozenset(("not", "never")) | _folds("stop avoid quit prevent")
_LIGHT = frozenset(("being", "getting", "having"))
_REACH = 7
"""Words between what hinders and what is hindered, and one."""


def other_aim(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return what one text hinders and the other brings about."""
    mine, theirs = asked.fact(_aims), stored.fact(_aims)
    for aim in sorted(mine.sure):
        if _is_turned(aim, mine, theirs):
            return _shown(aim), _shown(aim.turned)
    for aim in sorted(theirs.sure):
        if _is_turned(aim, theirs, mine):
            return _shown(aim.turned), _shown(aim)
    return _in_chinese(asked, stored)


def _is_turned(aim: Aim, own: Aims, others: Aims) -> bool:
    is_there = aim.turned in others.sure or aim.turned in others.may_be
    is_both = aim in others.sure or aim in others.may_be or aim.turned in own.sure | own.may_be
    return is_there and not is_both


def _shown(aim: Aim) -> str:
    return f"{'not ' if aim.is_hindered else ''}{aim.what}"


def _aims(reading: Reading) -> Aims:
    mine = outline(reading)
    if mine.vocabulary.isdisjoint(_CUES):
        return Aims(frozenset(), frozenset())
    clauses = [
        (token, _clause(mine.tokens[at + 1 : at + 1 + _REACH]))
        for at, token in enumerate(mine.tokens)
        if token.fold in _CUES
    ]
    return Aims(
        frozenset(aim for token, clause in clauses for aim in _sure(token, clause)),
        frozenset(aim for token, clause in clauses for aim in _may_be(token, clause)),
    )


def _clause(tokens: Sequence[Token]) -> Sequence[Token]:
    ends = (at for at, token in enumerate(tokens) if token.script is SYMBOL and token.text != "'")
    return tokens[: next(ends, len(tokens))]


def _sure(verb: Token, clause: Sequence[Token]) -> Iterator[Aim]:
    """Yield what a verb hinders in the words behind it, or keeps, or gets."""
    gerund = next((at for at, token in enumerate(clause) if _is_gerund(token)), len(clause))
    if verb.fold == _KEEP or verb.fold in _HINDERING:
        is_from = any(token.text == "from" for token in clause[:gerund])
        is_light = gerund < len(clause) and clause[gerund].text in _LIGHT
        for token in clause[gerund + is_light :][:1]:
            yield Aim(token.fold, is_deed=True, is_hindered=is_from or verb.fold != _KEEP)
    if gerund == len(clause) and verb.fold in _HINDERING | _GETTING:
        for token in _first_thing(clause):
            yield Aim(token.fold, is_deed=False, is_hindered=verb.fold in _HINDERING)


def _may_be(verb: Token, clause: Sequence[Token]) -> Iterator[Aim]:
    """Yield what a verb like "make" may bring about."""
    start = 0 if verb.fold in _MAKING else len(clause)
    if start and verb.fold in _MAKING_TO:
        start = next((at for at, token in enumerate(clause) if token.text == "to"), len(clause))
    is_hindered = False
    for token in clause[start:]:
        if token.text == "with":  # To help with a thing is not to bring it about.
            return
        is_hindered = is_hindered or token.fold in _TURNING
        if token.has_content:
            yield Aim(token.fold, is_deed=True, is_hindered=is_hindered)


def _first_thing(clause: Sequence[Token]) -> Sequence[Token]:
    start = 0
    while start < len(clause) and clause[start].text in {"a", "an", "the", "my", "your"}:
        start += 1
    return clause[start : start + 1] if clause[start:] and clause[start].has_content else ()


def _is_gerund(token: Token) -> bool:
    return token.text.endswith("ing") and (token.has_content or token.text in _LIGHT)


_HINDERED = re.compile("防止|阻止|避免|制止|预防|杜绝")
_CAUSED = re.compile("(?<!不)(?<!别)[让使令](?![我你]知道)|使得|导致|引起|[得患](?=感冒|病)")
_DENYING = frozenset("不没别停戒少免勿止防治抑控减缓")
"""Characters of what may be hindered in other words: 让孩子少玩手机."""
_ASKING = re.compile("怎|如何|方法|办法|什么|吗|咋")
_IDLE = re.compile(
    r"别[人的处]|怎么样?|怎样|如何|什么|方法|办法|才能|可以|[能会要想的了吗呢啊把被,。?! ]"
)
_SHARED = 0.8


def _in_chinese(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    mine, theirs = outline(asked).han, outline(stored).han
    if _is_hindered(mine, theirs):
        return "防止", "让"
    return ("让", "防止") if _is_hindered(theirs, mine) else None


def _is_hindered(hindered: str, caused: str) -> bool:
    """Return whether one text asks how to hinder what the other asks how to bring about."""
    if not (_ASKING.search(hindered) and _ASKING.search(caused)):
        return False
    if not _HINDERED.search(hindered) or not _CAUSED.search(caused):
        return False
    one = set(_IDLE.sub("", _HINDERED.sub("", hindered)))
    other = set(_IDLE.sub("", _CAUSED.sub("", caused)))
    if not one or not _DENYING.isdisjoint(other):
        return False
    return len(one & other) >= _SHARED * min(len(one), len(other))
