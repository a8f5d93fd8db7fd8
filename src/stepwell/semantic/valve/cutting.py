"""Cuts out what is quoted or fenced: it means itself, to the letter."""

import re

from stepwell.keys.text import prose_and_code

_SIGN = r"[^\W\u3400-\u4dbf\u4e00-\u9fff]"
"""A letter or digit of a script that puts blanks between words."""

_QUOTED = re.compile(
    '["“”„‟＂]\\s*["“”„‟＂]'  # Nothing in between: not the beginning of anything.
    rf"|(?<!{_SIGN})[\"“”„‟＂]([^\"“”„‟＂]+)[\"“”„‟＂](?!{_SIGN})"
    r"|「([^「」]+)」|『([^『』]+)』|《([^《》]+)》|«([^«»]+)»"
    # An apostrophe between letters does not end a quotation.
    rf"|(?<!{_SIGN})['‘]((?:[^'‘’\n]|(?<={_SIGN})['’](?={_SIGN}))+)['’](?!{_SIGN})"
)
"""Linear: nothing but an opening mark begins a search, and the next mark ends it."""

_MARKS = frozenset("\"“”„‟＂「『《«'‘`~")
_BLANK = " \t\r\n"


def cut(text: str) -> tuple[str, tuple[str, ...]]:
    """Return ``text`` with literal spans blanked out, and those spans without their marks.

    Code is cut as CommonMark has it; double quotation marks of every shape, ``「」 『』 《》 «»``,
    and single ones that are no apostrophes. Linear.
    """
    if _MARKS.isdisjoint(text):
        return text, ()
    prose: list[str] = []
    literals: list[str] = []
    for piece, is_prose in prose_and_code(text):
        if is_prose:
            prose.append(_without_quotes(piece, literals))
        else:
            code = piece.strip("`~" + _BLANK)
            literals.extend((code,) if code else ())
            prose.append(" " * len(piece))
    return "".join(prose), tuple(literals)


def _without_quotes(text: str, literals: list[str]) -> str:
    def blank(found: re.Match[str]) -> str:
        quoted = found[found.lastindex] if found.lastindex else ""
        if not quoted.strip(_BLANK):
            return found[0]
        literals.append(quoted.strip(_BLANK))
        return " " * len(found[0])

    return _QUOTED.sub(blank, text)
