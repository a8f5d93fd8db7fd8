"""What is done to a thing: turned off, turned down; the same verb with another particle."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import SYMBOL, Reading

_PARTICLES = frozenset("off down up on in out back away over".split())
_VERBS = {
    fold(word): group
    for group, words in (
        ("turn", "turn switch shut power"),
        ("log", "log sign"),
        *((verb, verb) for verb in "put take look bring give pick call cut roll hold hang".split()),
        *((verb, verb) for verb in "pay check opt break come go get set move send hand".split()),
        *((verb, verb) for verb in "throw zoom scale count phase lock drop pull push run".split()),
    )
    for word in words.split()
}
_BESIDE_THINGS = frozenset("turn log put check opt zoom phase hand".split())
"""With these, "in" and "on" are particles; with others they mostly begin to say where."""
_SAME = {
    ("log", "on"): "in",
    ("log", "off"): "out",
    ("throw", "away"): "out",
    ("give", "away"): "out",
    ("go", "away"): "off",
    ("come", "away"): "off",
}
_SHUTTING = frozenset(("shut", "power"))
"""To shut down is to turn off."""
_ALONE: dict[str, str] = {
    fold(word): state
    for state, words in (
        ("off", "mute silence"),
        ("on", "unmute"),
        ("down", "lower dim reduce decrease quieten"),
        ("up", "raise increase brighten"),
    )
    for word in words.split()
}
_CUES = _VERBS.keys() | _ALONE.keys()
_BEFORE_VERB = frozenset("to please you and can i then would could should just".split())
_BEHIND_PARTICLE = frozenset("and or for in at by to please when while if a before after".split())
_REACH = 6
"""Words between a verb and its particle, and one."""
_CHINESE = (
    ("off", re.compile("关掉|关闭|关上|关了|静音")),
    ("down", re.compile("调低|调小|调暗|降低|减小")),
    ("up", re.compile("调高|调大|调亮|提高|增大")),
    ("on", re.compile("打开|开启")),
)

_SIGNS = frozenset("关静调降减提增打开")


@dataclass(frozen=True, slots=True)
class Settings:
    """The particles of a text, by the verbs they belong to."""

    of: dict[str, frozenset[str]]


def settings(reading: Reading) -> Settings:
    """Return what a text says is done to things."""
    mine = outline(reading)
    found: dict[str, set[str]] = {}
    if not _CUES.isdisjoint(mine.vocabulary):
        for verb, particle in _in_english(mine.tokens):
            found.setdefault(verb, set()).add(particle)
    if not _SIGNS.isdisjoint(mine.han):
        states = {state for state, pattern in _CHINESE if pattern.search(mine.han)}
        if states:
            found["调"] = states
    return Settings({verb: frozenset(particles) for verb, particles in found.items()})


def _in_english(tokens: tuple[Token, ...]) -> Iterator[tuple[str, str]]:
    for index, token in enumerate(tokens):
        verb = _VERBS.get(token.fold)
        if verb is not None:
            particle = _particle(tokens, index, verb)
            if token.fold in _SHUTTING:
                particle = "off" if particle in {"off", "down"} else ""
            if particle:
                yield verb, _SAME.get((verb, particle), particle)
        elif token.fold in _ALONE and (index == 0 or tokens[index - 1].text in _BEFORE_VERB):
            yield "turn", _ALONE[token.fold]


def _particle(tokens: tuple[Token, ...], verb_at: int, verb: str) -> str:
    """Return the particle of a verb: right behind it, or behind its object."""
    for index in range(verb_at + 1, min(verb_at + 1 + _REACH, len(tokens))):
        text = tokens[index].text
        if tokens[index].script is SYMBOL or text == "and" or tokens[index].fold in _VERBS:
            return ""
        if text not in _PARTICLES or (text in {"in", "on"} and verb not in _BESIDE_THINGS):
            continue
        if index == verb_at + 1 or _ends(tokens, index + 1):
            return text
    return ""


def _ends(tokens: tuple[Token, ...], index: int) -> bool:
    """Return whether nothing is governed by the word before ``index``."""
    if index >= len(tokens):
        return True
    return tokens[index].script is SYMBOL or tokens[index].text in _BEHIND_PARTICLE


def reset(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return what each text says is done, if it is the same verb and nothing they share."""
    mine, theirs = asked.fact(settings).of, stored.fact(settings).of
    for verb in mine.keys() & theirs.keys():
        if mine[verb].isdisjoint(theirs[verb]):
            return _shown(verb, mine[verb]), _shown(verb, theirs[verb])
    return None


def _shown(verb: str, particles: frozenset[str]) -> str:
    return " ".join((verb, *sorted(particles)))
