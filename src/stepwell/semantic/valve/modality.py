"""Refuses another modality: can and must, must and should; did, is going to, might have."""

from collections.abc import Iterable

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.modal import NONE, Asking, Force, Modality, Tense
from stepwell.semantic.valve.modal_chinese import modality_in_chinese
from stepwell.semantic.valve.modal_english import modality_in_english
from stepwell.semantic.valve.negation import denials
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import Reading

_ALWAYS_APART = frozenset(
    map(frozenset, ((Force.MAY, Force.MUST), (Force.MAY, Force.NEED))),
)
_APART = _ALWAYS_APART | frozenset(
    map(frozenset, ((Force.MAY, Force.SHOULD), (Force.MUST, Force.SHOULD))),
)
"""Where yes or no is asked for. *What can I eat?* and *What should I eat?* have one answer, as
*Do I need to wait?* and *Should I wait?* do."""
_TIMES_APART = frozenset(
    frozenset((one, Tense.WILL)) for one in (Tense.DID, Tense.HAS, Tense.WAS)
) | {frozenset((Tense.BEFORE, Tense.IS))}
_TIMES_APART_OF_WHETHER = _TIMES_APART | frozenset(
    map(
        frozenset,
        (
            (Tense.WAS, Tense.IS),
            (Tense.MIGHT, Tense.DID),
            (Tense.MIGHT, Tense.HAS),
            (Tense.MIGHT, Tense.WAS),
        ),
    )
)
"""Where yes or no is asked for. *Who was the author?* and *Who is the author?* have one answer."""
_TIMELESS = frozenset(
    map(
        fold,
        """
        author writer inventor founder creator director composer painter discoverer architect
        designer maker builder father mother cause reason meaning purpose difference result outcome
        effect success origin point moral plot theme influential important significant worst best
        most first weird funny
        """.split(),
    )
)
"""Of these the past says the same as the present."""
_DONE = frozenset((Tense.DID, Tense.HAS, Tense.WAS))


def modality_of(reading: Reading) -> Modality:
    """Return what the main clauses of a text ask."""
    mine = outline(reading)
    return modality_in_chinese(mine.han) if mine.han else modality_in_english(mine.tokens)


def modality(asked: Reading, stored: Reading) -> Difference | None:
    """Return the modalities of which one text has one that the other cannot mean.

    If only one text has any, little is said: *How can I pay?*, *How do I pay?*
    """
    mine, theirs = asked.fact(modality_of), stored.fact(modality_of)
    if mine == theirs or NONE in (mine, theirs):
        return None
    are_whether = mine.asking is theirs.asking is Asking.WHETHER
    if _forces_differ(mine, theirs, are_whether=are_whether) and not (
        _is_denied(asked) and _is_denied(stored)  # What one may not do one must not do.
    ):
        return _difference(mine.forces, theirs.forces)
    is_cause = Asking.CAUSE in (mine.asking, theirs.asking)
    if not is_cause and _times_differ(mine, theirs, are_whether=are_whether):
        return _difference(mine.tenses, theirs.tenses)
    if outline(asked).content != outline(stored).content:
        return None
    found = _tense_alone(mine, theirs) if are_whether else None
    if found is None and not is_cause and _may_have_changed(outline(asked).folds):
        found = _past_and_present(asked, stored)
    return found


def _is_denied(reading: Reading) -> bool:
    return any(word == "not" or word[0] in "不没" for word in reading.fact(denials).words)


def _forces_differ(mine: Modality, theirs: Modality, *, are_whether: bool) -> bool:
    apart = _APART if are_whether else _ALWAYS_APART
    if not mine.forces.isdisjoint(theirs.forces) or not (mine.forces and theirs.forces):
        return False
    return all(frozenset((one, other)) in apart for one in mine.forces for other in theirs.forces)


def _times_differ(mine: Modality, theirs: Modality, *, are_whether: bool) -> bool:
    if not mine.tenses.isdisjoint(theirs.tenses):
        return False
    apart = _TIMES_APART_OF_WHETHER if are_whether else _TIMES_APART
    return any(frozenset((one, other)) in apart for one in mine.tenses for other in theirs.tenses)


def _tense_alone(mine: Modality, theirs: Modality) -> Difference | None:
    """Return a difference if one text asks what happened, the other what happens or may be done.

    Of texts that say the same things.
    """
    for one, other in ((mine, theirs), (theirs, mine)):
        is_over = Tense.DID in one.tenses and not one.forces and _DONE.isdisjoint(other.tenses)
        if is_over and (other.forces or other.tenses == {Tense.IS}):
            return _difference(mine.forces | mine.tenses, theirs.forces | theirs.tenses)
    return None


def _past_and_present(asked: Reading, stored: Reading) -> Difference | None:
    """Return a difference if one text asks what is, the other what was, of the same things."""
    mine, theirs = asked.fact(modality_of).tenses, stored.fact(modality_of).tenses
    one, other = sorted((mine, theirs), key=lambda tenses: Tense.IS not in tenses)
    if one == {Tense.IS} and other and other <= _DONE:
        return _difference(mine, theirs)
    words = _other_form(outline(asked), outline(stored))
    return Difference(Kind.MODALITY, *words) if words else None


def _other_form(mine: Outline, theirs: Outline) -> tuple[str, str] | None:
    """Return a verb that one text has in the present, the other in the past: owns, owned."""
    forms = {token.fold: token.text for token in theirs.tokens}
    for token in mine.tokens:
        one, other = token.text, forms.get(token.fold, "")
        for present, past in ((one, other), (other, one)):
            if past.endswith("ed") and present.endswith("s") and not present.endswith("ss"):
                return one, other
    return None


def _may_have_changed(folds: Iterable[str]) -> bool:
    """Return whether what is asked about may have been otherwise: not an author, nor the worst."""
    return not any(fold in _TIMELESS or fold.endswith("est") for fold in folds)


def _difference(mine: frozenset[Force | Tense], theirs: frozenset[Force | Tense]) -> Difference:
    return Difference(Kind.MODALITY, _names(mine - theirs), _names(theirs - mine))


def _names(modes: frozenset[Force | Tense]) -> str:
    return " ".join(sorted(mode.name.lower() for mode in modes))
