"""The same Chinese words in another order: 怎么重置密码, 密码怎么重置.

A Chinese question puts its object in front as it pleases. Whether a word has changed its role is
the valve's to say (`order`); where it has nothing against it, no other opinion is needed.

Chinese only: where English changes the order, it mostly changes what is said. Of English pairs that
nobody here had read, `strict` would serve 6.7 % of the look-alikes instead of 1.1.
"""

from collections import Counter

from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import HAN, Reading

_LONGEST = 14
"""Words; longer texts say more than their words alone."""


def is_reordered(asked: Reading, stored: Reading) -> bool:
    """Return whether two short Chinese texts say the same words, in whatever order."""
    return (
        asked.is_chinese
        and stored.is_chinese
        and max(len(asked.words), len(stored.words)) <= _LONGEST
        and asked.fact(_signs) == stored.fact(_signs)
    )


def _signs(reading: Reading) -> Counter[str]:
    """Return what is said, Chinese by its characters: words may be cut elsewhere."""
    return Counter(
        sign
        for token in outline(reading).tokens
        if token.has_content
        for sign in (token.text if token.script is HAN else (token.fold,))
    )
