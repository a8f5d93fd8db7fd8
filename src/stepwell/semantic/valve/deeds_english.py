"""What is done in an English text."""

from collections.abc import Iterator, Sequence

from stepwell.semantic.valve.deeds import NOBODY, PERSONS, Deed, Party
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import LATIN, Reading

_POSSESSIVES = frozenset("my your his her our their".split())
_LIGHT = frozenset(
    map(fold, "give tell use get show want like know let see keep take have make need".split())
)
"""Verbs that carry little content elsewhere."""
_AUXILIARIES = frozenset(
    "have has had to do does did can could will would shall should may might must need not ever "
    "never always often still also please just even really legally able allowed permitted entitled "
    "supposed going required wants want".split()
)
"""What may stand between a verb and its doer."""
_BE = frozenset("is are was were be been being get got".split())
_BEFORE_THINGS = frozenset(
    "a an the this that these those some any all to for from with about on in at into over front "
    "of".split()
)
"""What may stand between a verb and what it is done to. Behind "by" stands who does it."""


def english_deeds(reading: Reading) -> Iterator[Deed]:
    """Yield every word that may be a verb, with those before and behind it."""
    tokens = outline(reading).tokens
    for index, token in enumerate(tokens):
        if token.script is LATIN and (token.has_content or token.fold in _LIGHT):
            doer = _before(tokens[:index])
            other = _behind(tokens, index + 1) if doer.head else NOBODY
            if other.head:
                yield Deed(token.fold, doer, other)


def _before(tokens: Sequence[Token]) -> Party:
    """Return the doer, the last person or thing of some words; nobody behind a form of "be"."""
    at = len(tokens) - 1
    while at >= 0 and tokens[at].text in _AUXILIARIES:
        at -= 1
    if at < 0:
        return NOBODY
    text = tokens[at].text
    if text in PERSONS and text not in _POSSESSIVES - {"her"}:
        return Party(PERSONS[text])
    if not _is_thing(tokens[at]) or text in _BE:
        return NOBODY
    head = tokens[at].fold
    while at >= 0 and _is_thing(tokens[at]):
        at -= 1
    return Party(head, _owner(tokens, at))


def _owner(tokens: Sequence[Token], at: int) -> str:
    """Return whose it is, by what stands at ``at`` before a thing."""
    if at < 0:
        return ""
    if _is_genitive(tokens, at):
        return tokens[at - 1].fold
    return PERSONS[tokens[at].text] if tokens[at].text in _POSSESSIVES else ""


def _behind(tokens: Sequence[Token], at: int) -> Party:
    """Return the one it is done to, the first person or thing of some words."""
    end = len(tokens)
    while at < end and tokens[at].text in _BEFORE_THINGS:
        at += 1
    owner = ""
    if at < end and tokens[at].text in PERSONS:
        person = PERSONS[tokens[at].text]
        if tokens[at].text not in _POSSESSIVES or at + 1 >= end or not _is_thing(tokens[at + 1]):
            return Party(person)
        owner, at = person, at + 1
    start = at
    while at < end and _is_thing(tokens[at]):
        at += 1
    if at == start:
        return NOBODY
    if at + 1 < end and _is_genitive(tokens, at) and _is_thing(tokens[at + 1]):
        return Party(tokens[at + 1].fold, tokens[at - 1].fold)
    return Party(tokens[start].fold, _of(tokens, at) or owner)


def _of(tokens: Sequence[Token], at: int) -> str:
    """Return whose it is, if "of my sister" follows."""
    if at >= len(tokens) or tokens[at].text != "of":
        return ""
    return _behind(tokens, at + 1).head


def _is_genitive(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a mark of ownership stands at ``at``: my sister's, my parents'."""
    is_plural = tokens[at].text == "'" and tokens[at - 1].text.endswith("s")
    return at > 0 and (tokens[at].text == "'s" or is_plural)


def _is_thing(token: Token) -> bool:
    return token.has_content and token.script is LATIN
