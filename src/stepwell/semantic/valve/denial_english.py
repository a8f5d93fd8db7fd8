"""Where an English text denies something."""

import re

_SUBJECT = r"(?:i|you|we|they|he|she|it|this|that|these|those|there)"
_AUXILIARY = r"(?:is|are|was|were|can|could|will|would|should|has|have|had|did|does)"
_START = r"(?:^ |[.,;:?!] |\bbut |\band |\bso |\bhey |\bhi )"
_IDLE = re.compile(
    r"\bnot (?:only|just|merely|simply|to mention|sure)\b"
    r"|\bif not\b(?= [?.,;!]| $| the\b)|\bor (?:not|never)\b"
    r"|\b(?:with|and) (?:or|and )?without\b|\bor without\b"
    r"|\bno (?:matter|doubt|problem|worries|one else|\.|\d)|\bno(?= [,.!])|\bnever mind\b"
    r"|\bnothing but\b|\bnone other\b|\bwhy not\b(?= [?.]| $)|\bif not all\b"
    r"|\b(?:do|can|could|did) not (?:know|understand|remember|recall|find|locate|figure out|tell)\b"
    r"(?= (?:how|what|why|where|when|who|which|if|whether|the|my|about)\b)"
    r"|\b(?:will|can|could|would) not stop(?= \w+ing\b)"
    rf"|^ {_AUXILIARY} not(?! \w+ing\b)(?=[^.!]*\?)"
    rf"|{_START}{_AUXILIARY} not(?= {_SUBJECT}\b| the\b| my\b| your\b| people\b)"
    rf"|{_START}do not(?= (?:i|you|we|they|people|these|those|most)\b)"
    rf"|, (?:{_AUXILIARY}|do) not {_SUBJECT}(?= [?.!]| $)"
)
"""What looks like a denial and is none: "not only", "whether or not", "Isn't it ...?"."""
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|hardly|barely|scarcely"
    r"|seldom|rarely|unable|non|unless)\b"
)
_NEITHER_NOR = re.compile(r"\b(neither\b[^.?!]{0,80}?)\bnor\b")

WEAK = frozenset(
    """
    avoid prevent stop lack fail failure refuse break miss impossible quit cease deny forbid ban
    prohibit exclude except free lose loss deficient absent absence wrong error problem trouble
    issue dead down slow reject decline cancel disable remove rid block invalid off fault faulty
    illegal bad poor hate dislike empty crash overcome relieve cure eliminate fix solve stuck
    hard difficult away out disappear
    """.split()
)
"""Words that may say in one text what a denial says in the other."""


def denials(english: str) -> tuple[str, ...]:
    """Return the words of `Outline.english` that deny, in order."""
    if not _DENIAL.search(english):
        return ()
    english = _NEITHER_NOR.sub(r"\1   ", _IDLE.sub(" ", english))
    return tuple(_DENIAL.findall(english))
