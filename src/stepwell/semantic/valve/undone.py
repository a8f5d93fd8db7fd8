"""What one text undoes and the other does: renew, cancel the renewal; 续费, 取消续费."""

from stepwell.semantic.valve.alignment import unmatched
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import Reading

_UNDOING = frozenset(
    map(fold, "cancel stop undo revoke quit reverse abort withdraw terminate prevent".split())
) | frozenset("取消 解除 撤销 停止 终止 撤回 退订 废除 中止 作废".split())
_ENDING = frozenset("关退解删停撤不没别")
"""Characters that may say as much."""
_LONGEST = 20
"""Words; in longer texts much is said by the way."""


def undone(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a word that undoes, if that is all that one text adds to the other."""
    if max(len(asked.words), len(stored.words)) > _LONGEST:
        return None
    mine, theirs = outline(asked), outline(stored)
    one, other = mine.vocabulary & _UNDOING, theirs.vocabulary & _UNDOING
    if bool(one) == bool(other):
        return None
    if one:
        word = _added(mine, theirs)
        return (word, "") if word else None
    word = _added(theirs, mine)
    return ("", word) if word else None


def _added(longer: Outline, shorter: Outline) -> str:
    """Return what undoes in ``longer``, if ``shorter`` is the rest of it."""
    more = unmatched(longer, shorter)
    is_rest = bool(shorter.content) and all(
        word in longer.content or (not word.isascii() and word in longer.han)
        for word in shorter.content
    )
    if not is_rest or not more or not more <= _UNDOING or not _ENDING.isdisjoint(shorter.han):
        return ""
    return " ".join(sorted(more))
