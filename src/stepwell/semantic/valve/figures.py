"""Numbers as digits write them: ranges, fractions, decimal commas, codes that are no numbers."""

import re
from fractions import Fraction

from stepwell.semantic.valve.numerals import MAX_DIGITS, digits
from stepwell.semantic.valve.units import Unit

TOKEN = re.compile(r"(\d[\d,]*(?:\.\d+)?|\.\d+)([a-zμω]*)")
"""A number and the letters right behind it."""
_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")


def parts(token: str) -> list[str] | None:
    """Return the numbers of a range, a product or a list; one for a number; ``None`` for a code."""
    if TOKEN.fullmatch(token) or re.fullmatch(r"\d+/\d+", token):
        grouped = token.count(",") == 0 or re.match(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?!\d)", token)
        return [token] if grouped else _european(token)
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", token):
        return [token.replace(".", "").replace(",", ".")]
    pieces = re.split(r"-|x(?=\d)|:", token)
    *firsts, last = pieces
    if len(pieces) <= 4 and all(map(_FIGURE.fullmatch, firsts)) and TOKEN.fullmatch(last):  # noqa: PLR2004 - more are a code
        return pieces
    return None


def _european(token: str) -> list[str]:
    """Return the numbers of ``3,5``: with a decimal comma or listed, they are the same twice."""
    return [part for part in token.split(",") if part]


def fraction(text: str) -> Fraction | str:
    """Return the value of ``1/2``, or the text where it can be none."""
    above, below = text.split("/")
    if len(text) > MAX_DIGITS or not int(below):
        return text
    return Fraction(int(above), int(below))


def exact(number: str, unit: Unit | None) -> Fraction | str:
    """Return the value of digits, or the digits where they may be a code or a version."""
    whole, _, part = number.partition(".")
    is_code = (
        len(number) > MAX_DIGITS
        or part.count(".")
        or (whole.startswith("00") and not part)
        or (whole.startswith("0") and len(whole) > 2 and not part)  # noqa: PLR2004
        or (unit is None and part.endswith("0") and part.strip("0"))
    )
    return number if is_code else digits(number)
