"""Who does it, to whom, and whose it is: my sister borrows my bike, I borrow my sister's bike."""

from itertools import product

from stepwell.semantic.valve.deeds import PERSONS, Deed, Party
from stepwell.semantic.valve.deeds_chinese import chinese_deeds
from stepwell.semantic.valve.deeds_english import english_deeds
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.reading import Reading

_LONGEST = 60
"""Words; longer texts tell of many deeds."""
_PERSONS = frozenset(PERSONS.values())
_DEEDS = frozenset(
    map(
        fold,
        """
        give pay owe tell send lend ask call help sue hire fire love like hate follow teach invite
        trust contact charge refund reimburse notify inform warn email text visit support
        beat kill attack bite eat chase protect blame thank forgive replace report affect cause
        train feed ignore accept reject block represent sell show offer bring buy
        """.split(),
    )
)
_BOTH_WAYS = frozenset(map(fold, "get have marry meet date".split())) | frozenset(
    "结婚 见面".split()
)
"""I get my refund, my refund gets to me."""


def deeds(reading: Reading) -> frozenset[Deed]:
    """Return what is done in a text."""
    if len(reading.words) > _LONGEST:
        return frozenset()
    return frozenset((chinese_deeds if reading.is_chinese else english_deeds)(reading))


def other_doer(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a deed, if in the other text those it is about have changed places.

    One of them is a person, or the verb is one of which doer and other are easily exchanged: all
    else is found by the order of the words.
    """
    mine, theirs = asked.fact(deeds), stored.fact(deeds)
    for deed, other in product(sorted(mine - theirs), sorted(theirs - mine)):
        if deed.verb == other.verb and _have_changed_places(deed, other):
            return _shown(deed), _shown(other)
    return None


def _have_changed_places(mine: Deed, theirs: Deed) -> bool:
    """Compare two deeds of one verb.

    Doer and the one it is done to: *I call her*, *she calls me*. Doer and owner of the thing: *I
    see my doctor's notes*, *my doctor sees my notes*. Owner of the doer and the one it is done to:
    我的狗咬了邻居, 邻居的狗咬了我.
    """
    doer, other = mine.doer, mine.other
    swaps = []
    if mine.verb not in _BOTH_WAYS:
        swaps.append(((doer.head, other.head), (theirs.doer.head, theirs.other.head)))
    if other.head == theirs.other.head:
        swaps.append(((doer.head, other.owner), (theirs.doer.head, theirs.other.owner)))
    if doer.head == theirs.doer.head:
        swaps.append(((doer.owner, other.head), (theirs.doer.owner, theirs.other.head)))
    return any(
        one == (second, first)
        and first != second
        and all(one)
        and (mine.verb in _DEEDS or not _PERSONS.isdisjoint(one))
        for one, (first, second) in swaps
    )


def _shown(deed: Deed) -> str:
    return f"{_party(deed.doer)} {deed.verb} {_party(deed.other)}"


def _party(party: Party) -> str:
    return f"{party.owner}'s {party.head}" if party.owner else party.head
