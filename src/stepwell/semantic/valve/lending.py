"""Which way a thing goes that Chinese says with one verb: 借给银行, 向银行借; 给朋友, 向朋友要."""

import re

from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import Reading

_FROM = "(?:[向从找跟和与同管]|(?<!请)问)"
_SOME = "[^,。?!给借后时]"
_LENT = re.compile(rf"借{_SOME}{{0,5}}给(?!我)|借出(?!来)|出借|外借|{_FROM}我{_SOME}{{0,4}}借")
_BORROWED = re.compile(
    rf"{_FROM}(?!我){_SOME}{{1,8}}借(?!{_SOME}{{0,5}}给)|借{_SOME}{{0,5}}给我|借[入到来]"
)
_ASKED_FOR = re.compile(rf"[向找跟问管]({_SOME}{{1,6}}?)[要讨](?![求强紧好])")


def other_way(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a difference if the one gives, who in the other text gets."""
    mine, theirs = outline(asked).han, outline(stored).han
    ways = _way(mine), _way(theirs)
    if all(ways) and ways[0] != ways[1]:
        return ways
    if _is_given(theirs, mine):
        return "要", "给"
    return ("给", "要") if _is_given(mine, theirs) else None


def _way(han: str) -> str:
    if "借" not in han:
        return ""
    is_lent, is_borrowed = bool(_LENT.search(han)), bool(_BORROWED.search(han))
    if is_lent == is_borrowed:
        return ""
    return "借给" if is_lent else "借到"


def _is_given(given: str, asked_for: str) -> bool:
    """Return whether one text gives to whom the other asks for something."""
    found = _ASKED_FOR.search(asked_for)
    return found is not None and f"给{found[1]}" in given and not _ASKED_FOR.search(given)
