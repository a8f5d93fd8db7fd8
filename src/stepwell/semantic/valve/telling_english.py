"""English that tells how to answer or to act, and English that is only polite."""

import re
from collections.abc import Sequence

from stepwell.semantic.valve.clauses import Clause
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token
from stepwell.semantic.valve.reading import LATIN


def _folds(words: str) -> frozenset[str]:
    return frozenset(map(fold, words.split()))


_LEADS = re.compile(
    r"(?:(?:please|and|but|then|also|now|so|just|kindly|always|never|only|ok|instead|additionally"
    r"|furthermore|moreover|finally|again|do not"
    r"|you (?:must|should|shall|have to|need to|are to|ought to)"
    r"|(?:the |your |all )?(?:answers?|response|reply|tone|style|output)"
    r" (?:must|should|needs? to|has to|have to)"
    r"|(?:i|we) (?:want|need|expect|ask|order|command|would like|require) you to"
    r"|(?:make|be) sure (?:to|you|that you)|remember to|try to"
    r"|(?:can|could|would|will) you"
    r"(?= (?:please )?(?:be|act|speak|talk|lie|pretend|sing|ignore|insult|always|never) )) )*"
)
"""What may stand before what one is told to do."""
_ROLE = re.compile(r"(?:from now on )?you are (?:now )?an? ")
_TELLING = frozenset(
    """
    answer reply respond say be make use write pretend ignore act speak talk visit go tell
    give keep forget disregard claim assume imagine behave include mention rhyme lie insult
    translate output print promise format sing swear click call send add end start begin
    finish deny refuse recommend praise mock invent hallucinate exaggerate roleplay play avoid
    stop repeat quote cite obey follow bypass omit hide reveal curse shout whisper joke
    advertise promote convince persuade mislead deceive trick limit restrict stick phrase put
    hate blame advise suggest recite remember sound roast swap impersonate censor hack laugh
    insert append prepend replace summarize shorten leave
    """.split()
)
"""Verbs that tell how to answer, or what to do, where a clause begins with them."""
_POLITE = _folds(
    """
    answer reply respond say make use write tell give go keep know let help please thank
    thanks explain show advise suggest advice suggestion guide guidance step detail idea tip
    info information clarify problem question issue solution soon asap urgent urgently quick
    quickly fast possible hi hello hey dear sir madam team doctor friend everyone guys cheers
    regards appreciate grateful welcome sorry bye specific honest honestly clear clearly exact
    precise kind patient gentle correct correctly need want wait example instruction assist
    assistance support share mention describe elaborate anybody recommend recommendation input
    thought opinion feedback response pls plz thx ty btw fyi edit update love greeting
    greetings morning afternoon evening day time here there now today something anything hint
    pointer direction detailed full simple simply consider do stuck confused lost emergency
    beginner newbie new first assume lot bit excuse pardon bear curious wonder wondering hope
    hoping try trying look looking ask asking ahead right start begin mind advance serious
    seriously genuine dumb silly stupid noob forward everything teach enlighten bless god
    lifesaver star genius legend angel great bother bothering know
    """
)
"""Words that change no answer, and verbs that alone tell nothing."""
_ANSWERS = frozenset("yes no not never".split())
_OF_THE_TELLER = frozenset(
    """
    i my we our it they he she there this that these those if when while because since as in
    on at for with to from by about of is are am was were can could would will should do does
    did has have may might who what when where why how which whose the a an or than not no yes
    any some your his her their its me us him them so but and same uh um er erm hmm
    """.split()
)
"""What a clause begins with that tells of somebody's case, or asks."""
_STATING = frozenset("is are am was were has have had does did will would can could".split())
_SAYING = frozenset("say says said agree agrees".split())
_SHORT = 8
"""Words of a clause that tells something without a verb that is known: wrong answers only."""
_PAST = re.compile(r".{2,}ed$")

_HARMLESS_MANNER = frozenset(
    """
    really actually exactly currently usually quickly easily simply basically properly
    correctly safely kindly possibly generally normally recently fully completely truly
    literally honestly seriously definitely certainly probably surely clearly obviously
    apparently actively practically specifically especially particularly effectively
    efficiently successfully nicely perfectly absolutely totally entirely wholly thoroughly
    carefully directly immediately instantly promptly shortly finally lately formerly
    presently nowadays globally worldwide routinely regularly commonly typically frequently
    ordinarily mostly mainly largely primarily essentially fundamentally officially legally
    necessarily suddenly constantly personally precisely accurately rightly hopefully
    presumably supposedly evidently ideally preferably readily smoothly reliably securely
    approximately roughly nearly virtually merely purely solely only early family reply apply
    supply fly july italy likely friendly ugly lovely lonely holy jelly bully rally ally
    assembly anomaly monopoly butterfly daily weekly monthly yearly hourly quarterly elderly
    silly belly lily curly rely comply imply multiply sly ply firstly secondly thirdly lastly
    originally initially eventually ultimately previously already greatly highly extremely
    incredibly desperately urgently sincerely desirably technically theoretically
    realistically feasibly humanly conveniently comfortably cleanly freshly newly widely
    conceivably potentially seemingly surprisingly unexpectedly permanently
    """.split()
)
"""Adverbs that one may leave out, and words that only end as adverbs do."""
_SHORTEST_ADVERB = 5
_PREPOSITIONS = frozenset(
    "including regarding concerning being considering according depending excluding during "
    "following assuming".split()
)
"""Words that only end as participles do."""


def told(clause: Clause) -> frozenset[str]:
    """Return what an English clause tells to do, if it begins as such clauses do; else nothing."""
    return content(clause.tokens) if begins_telling(clause.tokens) else frozenset()


def content(tokens: Sequence[Token]) -> frozenset[str]:
    """Return what is said in English but for what is only polite."""
    said = [token.fold for token in tokens if token.has_content or token.text in _ANSWERS]
    return frozenset(said) - _POLITE


def is_command(tokens: Sequence[Token]) -> bool:
    """Return whether a short clause tells to do something, be it in no listed words."""
    rest = _without_leads(tokens)
    if not rest or len(rest) > _SHORT or not content(rest):
        return False
    first = rest[0]
    return (
        first.script is LATIN
        and first.text not in _OF_THE_TELLER
        and (first.fold not in _POLITE or first.text in _TELLING)
        and not _PAST.match(first.text)
        and not any(token.text in _STATING for token in rest)
    )


def is_statement(tokens: Sequence[Token]) -> bool:
    """Return whether words of grammar alone say something: it is; I do; of course not."""
    texts = [token.text for token in tokens]
    stating = _STATING | _SAYING | {"not"}
    return len(texts) > 1 and not stating.isdisjoint(texts)


def begins_telling(tokens: Sequence[Token]) -> bool:
    """Return whether words without a sign before them begin to tell how to answer."""
    rest = _without_leads(tokens)
    is_telling = bool(rest) and (rest[0].text in _TELLING or _is_role(rest))
    return is_telling and bool(content(rest))


def _is_role(tokens: Sequence[Token]) -> bool:
    return _ROLE.match(" ".join([token.text for token in tokens[:8]])) is not None


def is_manner(token: Token) -> bool:
    """Return whether an English word says how something is done, and not by the way."""
    text = token.text
    return text.endswith("ly") and len(text) >= _SHORTEST_ADVERB and text not in _HARMLESS_MANNER


def is_participle(tokens: Sequence[Token]) -> bool:
    """Return whether words begin with a participle: lying to the user."""
    first = tokens[0].text
    return (
        len(tokens) > 1
        and first.endswith("ing")
        and first not in _PREPOSITIONS
        and bool(content(tokens))
    )


def _without_leads(tokens: Sequence[Token]) -> Sequence[Token]:
    found = _LEADS.match("".join([f"{token.text} " for token in tokens]))
    return tokens[found[0].count(" ") :] if found else tokens
