"""Modality of English questions, read off the auxiliary of each main clause."""

import re
from collections.abc import Iterator, Sequence

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.modal import NONE, Asking, Force, Modality, Tense
from stepwell.semantic.valve.outline import Token, folded
from stepwell.semantic.valve.reading import Script

_ENDS = frozenset(".?!,;:")
_LEADS = frozenset(
    "hi hello hey please so ok okay well and but or also then sorry thanks however just".split()
)
_ASKED_FOR = re.compile(
    r"(?:(?:can|could|would|will|may) (?:you|i|we|anyone|someone|somebody|u) "
    r"(?:please |kindly |just |also )*"
    r"(?:tell|explain|show|help|give|know|ask|advise|suggest|describe|let|recommend|write|list"
    r"|translate|summari[sz]e|provide|make|create|find|name|confirm|clarify|check|walk)"
    r"|(?:do|does) (?:you|anyone|anybody|someone) (?:know|think|happen)"
    r"|(?:i|we) (?:am |are )?(?:want|need|would like|wish|like|wonder|wondering|curious|confused"
    r"|not sure|unsure|asking)|tell me|explain|any idea)(?: |$)"
)
"""A request, with what is asked for behind it."""
_HIDDEN = re.compile(r" (?:if|whether|what|which|who|whom|when|where|how|why) ")
_MODALS = {
    "can": Force.MAY,
    "could": Force.MAY,
    "may": Force.MAY,
    "must": Force.MUST,
    "should": Force.SHOULD,
    "ought": Force.SHOULD,
    "shall": Force.SHOULD,
}
_TENSES = {
    "did": Tense.DID,
    "has": Tense.HAS,
    "have": Tense.HAS,
    "had": Tense.HAS,
    "was": Tense.WAS,
    "were": Tense.WAS,
    "is": Tense.IS,
    "are": Tense.IS,
    "am": Tense.IS,
    "do": Tense.IS,
    "does": Tense.IS,
    "will": Tense.WILL,
}
_HAVE = frozenset(("has", "have", "had"))
_AUXILIARIES = _MODALS.keys() | _TENSES.keys() | {"would", "might"}
_UNREAL = frozenset("could would should might may must".split())
_QUESTION_WORDS = frozenset("what which who whom whose when where why how".split())
_SUBJECTS = frozenset("i we you they he she it one".split())
_PREPOSITIONS = frozenset("in on at for by with from to of under until since".split())
_MEASURES = frozenset(
    "many much long often far old big large high tall soon fast early late few little".split()
)
_PHRASES = (
    (Force.MUST, r"(?:have|has|had) (?:got )?to|required|mandatory|compulsory|obligatory|obliged"),
    (Force.NEED, r"needs?|needed|necessary|essential|supposed to"),
    (
        Force.MAY,
        (
            r"able to|allowed|permitted|permissible|legal|lawful|possible(?! (?:to )?that)|eligible"
            r"|ok|okay"
        ),
    ),
    (
        Force.SHOULD,
        r"worth|worthwhile|advisable|recommended|advised|(?:a )?good idea|better (?:to|if)",
    ),
)
_PHRASE = tuple((force, re.compile(rf" (?:{pattern}) ")) for force, pattern in _PHRASES)
_CUES = frozenset(
    "have has had required mandatory compulsory obligatory obliged need needs needed necessary "
    "essential supposed able allowed permitted permissible legal lawful possible eligible ok okay "
    "worth worthwhile advisable recommended advised idea better".split()
)
"""Without one of these there is no such phrase."""
_UP_TO_HERE = re.compile(r" (?:if|when|because|that|who|which|since|unless|while|although) .*")
_WHAT_TO_DO = re.compile(
    r"(?:what (?:else )?|(?:what|which) (?:\S+ )?(?:steps?|measures?) )"
    r"(?:can|could|should|shall|must|may|do|does|would|am|are) (?:\S+ )?"
    r"(?:(?:need|have|supposed) to )?(?:do|take)(?: |$)"
)
"""What should I do if: asks for a way, as "how" does."""
_TIME_NEEDED = re.compile(r" (?:wait|pass|left) ")
"""How long do I have to wait: how soon can I."""
_SURELY_DONE = frozenset("been already ever yet gone become".split())
_DONE_FOLDS = frozenset(
    map(
        fold,
        """
        go buy bring build catch choose come drive drink eat fall feel fight find fly forget give
        grow hold hide keep know lead lend lose make meet pay run say see sell send show sink speak
        spend stand steal strike swim take teach tell think throw understand win write break begin
        become beat leave discover invent
        """.split(),
    )
)
"""Verbs with past forms of their own."""
_REACH = 8
"""Words that may stand between an auxiliary and its verb."""


def modality_in_english(tokens: Sequence[Token]) -> Modality:
    """Return what the clauses of a text ask, by their auxiliaries."""
    forces: set[Force] = set()
    tenses: set[Tense] = set()
    askings: set[Asking] = set()
    for clause in _clauses(tokens):
        words = _asked(clause)
        if not words:
            continue
        at = _auxiliary(words)
        asking = _asking(words, at)
        if asking is not Asking.NOTHING:
            askings.add(asking)
            tenses |= _tenses(words, at)
            forces |= _forces(words, at)
    if not askings:
        return NONE
    asking = askings.pop() if len(askings) == 1 else Asking.WHICH
    return Modality(asking, frozenset(forces), frozenset(tenses))


def _asking(words: list[str], at: int) -> Asking:
    if words[0] == "why":
        return Asking.CAUSE
    if words[0] in _QUESTION_WORDS:
        return Asking.WHICH
    return Asking.WHETHER if at >= 0 else Asking.NOTHING


def _clauses(tokens: Sequence[Token]) -> Iterator[list[str]]:
    clause: list[str] = []
    for token in tokens:
        if token.script is Script.SYMBOL and token.text in _ENDS:
            if clause:
                yield clause
            clause = []
        elif clause or token.text not in _LEADS:
            clause.append(token.text)
    if clause:
        yield clause


def _asked(words: list[str]) -> list[str]:
    """Return a clause from the word that asks on; nothing if it asks for nothing."""
    text = " ".join(words)
    lead = _ASKED_FOR.match(text)
    if lead:
        hidden = _HIDDEN.search(text, lead.end() - 1)
        words = text[hidden.start() + 1 :].split() if hidden else []
        return words[1:] if words[:1] in (["if"], ["whether"]) else words
    if words[0] in _PREPOSITIONS and len(words) > 1 and words[1] in _QUESTION_WORDS:
        return words[1:]
    is_first = words[0] in _AUXILIARIES or (words[0] in _QUESTION_WORDS and not _is_aside(words))
    return words if is_first else _asked_behind(words)


def _asked_behind(words: list[str]) -> list[str]:
    """Return what is asked behind something else: If it rains can I cancel."""
    for at in range(1, len(words) - 1):
        if words[at] in _AUXILIARIES and words[at + 1] in _SUBJECTS:
            return words[at - (words[at - 1] in _QUESTION_WORDS) :]
    return []


def _is_aside(words: list[str]) -> bool:
    """Return whether a clause only tells when: When I travel."""
    return words[0] in {"when", "where"} and (len(words) == 1 or words[1] not in _AUXILIARIES)


def _auxiliary(words: list[str]) -> int:
    """Return where the first auxiliary is, or -1."""
    return next((at for at, word in enumerate(words[:_REACH]) if word in _AUXILIARIES), -1)


def _asks_for_a_way(words: list[str]) -> bool:
    if words[0] == "how":
        return len(words) < 2 or words[1] not in _MEASURES  # noqa: PLR2004 - the word behind
    return _WHAT_TO_DO.match(" ".join(words)) is not None


def _forces(words: list[str], at: int) -> set[Force]:
    if _asks_for_a_way(words):
        return set()
    found: set[Force] = set()
    word = words[at] if at >= 0 else ""
    if word in _MODALS and not _is_unreal(words, at):
        found.add(_MODALS[word])
    if not _CUES.isdisjoint(words):
        text = _UP_TO_HERE.sub(" ", f" {' '.join(words[max(at, 0) :])} ")
        if not _TIME_NEEDED.search(text):
            found |= {force for force, pattern in _PHRASE if pattern.search(text)}
    if words[0] == "how":  # What is needed is that with which one can.
        found.discard(Force.NEED)
        if words[1] in {"long", "many", "much"}:  # How long do I have to pay?
            found.discard(Force.MUST)
    return found


def _is_unreal(words: list[str], at: int) -> bool:
    """Return whether an auxiliary makes what is said a mere thought: could ... have won."""
    if at < 0 or words[at] not in _UNREAL:
        return False
    behind = words[at + 1 : at + 1 + _REACH]
    return any(word == "have" and _is_done(behind[n + 1]) for n, word in enumerate(behind[:-1]))


def _tenses(words: list[str], at: int) -> set[Tense]:
    if at < 0:
        return {Tense.DID} if any(map(_is_done, words[1:5])) else set()
    word, behind = words[at], words[at + 1 : at + 1 + _REACH]
    if _is_unreal(words, at):
        return {Tense.MIGHT}
    if Tense.IS is _TENSES.get(word) and "going to" in " ".join(behind):
        return {Tense.WILL}
    if word in _HAVE and (behind[:1] == ["to"] or not any(map(_is_done, behind))):
        return set()
    return {_TENSES[word]} if word in _TENSES else set()


def _is_done(word: str) -> bool:
    """Return whether a word looks like a participle or a past tense."""
    if word.endswith("ed"):
        return len(word) > 4  # noqa: PLR2004 - not "need", "feed", "red"
    if word in _SURELY_DONE:
        return True
    base = folded(word)
    return base in _DONE_FOLDS and word != base and not word.endswith(("ing", "s", "e"))
