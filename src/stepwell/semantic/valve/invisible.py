"""Characters that nobody sees and a model may read."""

from functools import cache

_JOINERS = (
    "\u00ad\u034f\u061c\u180e"
    + "".join(map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))))
    + "\ufeff\ufff9\ufffa\ufffb\U000e0001\U000e007f"
)
"""Format characters (category Cf) of no shape: soft hyphens, joiners, marks of direction. They
stand within words and emoji; without them both are what they were."""
_TAGS = range(0xE0020, 0xE007F)
"""Invisible twins of ASCII: a whole instruction can be written in them."""


def shown(text: str) -> str:
    """Return ``text`` without invisible characters, and with tags as the letters they stand for."""
    return text if text.isascii() else text.translate(_visible())


@cache
def _visible() -> dict[int, str]:
    return dict.fromkeys(map(ord, _JOINERS), "") | {tag: chr(tag - 0xE0000) for tag in _TAGS}
