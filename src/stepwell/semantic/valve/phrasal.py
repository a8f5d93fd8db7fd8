"""A particle that makes another verb: get a cold, get over a cold; keep bees, keep bees away.

With most verbs a particle says little (*clean up the room*, *fill up the tank*): those of which it
makes another one are listed.
"""

from collections.abc import Iterator

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import SYMBOL, Reading

_CHANGING = {
    fold(verb): frozenset(particles.split())
    for verb, particles in (
        ("keep", "away out off"),
        ("get", "over through past around rid"),
        ("break", "in into"),
        ("fill", "in"),
        ("run", "for over into from"),
        ("call", "off"),
        ("set", "off"),
        ("give", "up"),
        ("put", "off down out"),
        ("take", "off apart over on"),
        ("ask", "out"),
        ("let", "down"),
        ("tell", "off"),
        ("show", "off"),
        ("write", "off"),
        ("throw", "up"),
        ("hold", "up"),
        ("knock", "out"),
        ("leave", "out"),
        ("pull", "over"),
        ("bring", "up"),
        ("carry", "out"),
        ("blow", "up"),
        ("cut", "off"),
        ("turn", "down in"),
        ("lay", "off"),
        ("rip", "off"),
    )
}
_ARTICLES = frozenset("a an the my your his her our their this that some any".split())
_PARTICLES = frozenset("up down on off in out away over for into to from with at of about".split())
_SEPARABLE = frozenset("away out off apart up down over".split())
_FORMS = frozenset(map(fold, "form application survey questionnaire blank detail".split()))
"""To fill them is to fill them in."""
_REACH = 6


def other_particle(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a verb with a particle, if the other text does without it to the same thing."""
    mine, theirs = asked.fact(_verbs), stored.fact(_verbs)
    for one, other, is_turned in ((mine, theirs, False), (theirs, mine, True)):
        for verb, particle, thing in sorted(one):
            bare = (verb, "", thing)
            if particle in _CHANGING[verb] and bare in other and bare not in one:
                words = f"{verb} {particle} {thing}", f"{verb} {thing}"
                return words[::-1] if is_turned else words
    return None


def _verbs(reading: Reading) -> frozenset[tuple[str, str, str]]:
    mine = outline(reading)
    if mine.vocabulary.isdisjoint(_CHANGING):
        return frozenset()
    return frozenset(_found(mine.tokens))


def _found(tokens: tuple[Token, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield verbs with their particle, if any, and what it is done to."""
    for at, token in enumerate(tokens):
        if token.fold not in _CHANGING:
            continue
        behind = at + 1
        particle = ""
        if behind < len(tokens) and tokens[behind].text in _PARTICLES | _CHANGING[token.fold]:
            particle = tokens[behind].text
            behind += 1
        while behind < len(tokens) and tokens[behind].text in _ARTICLES | {"of"}:
            behind += 1
        if behind >= len(tokens) or not tokens[behind].has_content:
            continue
        thing = tokens[behind].fold
        if thing not in _FORMS:
            yield token.fold, particle or _behind_thing(tokens, behind + 1), thing


def _behind_thing(tokens: tuple[Token, ...], at: int) -> str:
    """Return the particle behind what it is done to: keep bees away."""
    for token in tokens[at : at + _REACH]:
        if token.script is SYMBOL or token.text in {"and", "or", "to"}:
            return ""
        if token.text in _SEPARABLE or token.text == "from":
            return token.text
    return ""
