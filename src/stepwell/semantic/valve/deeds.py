"""What is done in a text: the verb, who does it, to whom or what, and whose that is."""

from typing import NamedTuple

PERSONS = {
    word: group.split()[0]
    for group in (
        "i me my mine myself 我 我们 咱 咱们 俺",
        "you your yours yourself 你 您 你们",
        "he him his himself 他 他们",
        "she her hers herself 她 她们",
        "we us our ours ourselves",
        "they them their theirs themselves",
    )
    for word in group.split()
}
"""Those who speak, are spoken to or spoken of, by all forms of the word."""


class Party(NamedTuple):
    """One who takes part in a deed."""

    head: str
    """Fold of the noun, or a person; empty: nobody is named."""
    owner: str = ""
    """Whose it is: of *my bike* the one who speaks, of *my sister's bike* the sister."""


NOBODY = Party("")


class Deed(NamedTuple):
    """One verb and those around it."""

    verb: str
    doer: Party
    other: Party
    """To whom or what it is done."""
