"""What two answers' tool calls say about them."""

from collections import Counter

from stepwell.core.judging import Said


def same_calls(one: Said, other: Said) -> bool | None:
    """Return whether two answers call the same tools with the same arguments, in any order.

    ``False``: other tools, or another number of calls, so that a program would do something else
    with them. ``None``: the same tools with other arguments, which may come to the same (two
    wordings of one search). ``True`` too where neither calls any.
    """
    if Counter(one.calls) == Counter(other.calls):
        return True
    names = Counter(call.name for call in one.calls)
    return None if names == Counter(call.name for call in other.calls) else False
