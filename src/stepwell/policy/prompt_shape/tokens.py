"""How many tokens a text is, where no tokenizer is at hand."""

import re
from collections.abc import Callable

CountTokens = Callable[[str], float]
"""Returns the tokens of a text; may be a fraction. A tokenizer's own count fits in here."""

_CHARACTERS_A_TOKEN = 4
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def estimated_tokens(text: str) -> float:
    """Return about how many tokens a text is: one a CJK character, else a quarter a character.

    Within some 20 % for English prose and Chinese with the tokenizers of 2024 and later; code and
    rare scripts have more. Costs 0.1 us for ASCII, some 10 us per 1,000 characters otherwise.
    """
    if text.isascii():
        return len(text) / _CHARACTERS_A_TOKEN
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide) / _CHARACTERS_A_TOKEN
