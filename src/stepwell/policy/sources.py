"""Freshness markers: the values of named sources an answer depends on.

A source is a name with a current value, such as ``last_updated`` = ``2026-03-01``. Its value
is known in two ways: the request states it (`Controls.sources`), or somebody set it for the
namespace (`Feed.move_source`). Stating nothing and setting nothing is the empty value. So a
class may name a source before anyone feeds it, and answers are cached meanwhile; the first
value then makes all of them stale.
"""

from collections.abc import Callable, Sequence

from stepwell.core.entry import Entry, SourceValue
from stepwell.policy.classes import RequestClass

CurrentSource = Callable[[str], str | None]
"""The value set for a named source in the request's namespace, or ``None`` if nobody set one.
Called on every hit that has sources: a look-up in memory, no I/O."""

UNSET = ""
"""Value of a source that nobody has given one. Stating or setting this is stating nothing."""


def stamp(
    request_class: RequestClass, given: Sequence[SourceValue], current_source: CurrentSource
) -> tuple[SourceValue, ...]:
    """Return the sources an answer depends on, with their values, sorted by name.

    Call it *before* the upstream is asked: a source that moves while the answer is being made
    then makes it stale, as it should.

    Args:
        request_class: Its sources are always part of the stamp.
        given: What the request states. A stated value counts more than one that was set, so
            that an answer made for a caller who knows better is never served as the set one.
        current_source: Values set for the namespace.
    """
    stated = {source.name: source.value for source in given}
    return tuple(
        SourceValue(name, stated.get(name) or current_source(name) or UNSET)
        for name in sorted({*stated, *request_class.sources})
    )


def has_moved(
    entry: Entry,
    request_class: RequestClass,
    given: Sequence[SourceValue],
    current_source: CurrentSource,
) -> bool:
    """Return whether a source has another value than ``entry`` was made under.

    Looks at the sources of the entry, of the class as it is now, and of the request. Where the
    request and the namespace both have a value, the entry must agree with both; where neither
    has, it must have been made under the empty value. Costs a dictionary look-up per source.
    """
    if not (entry.sources or request_class.sources or given):
        return False
    stamped = {source.name: source.value for source in entry.sources}
    stated = {source.name: source.value for source in given}
    for name in {*stamped, *stated, *request_class.sources}:
        made_under = stamped.get(name, UNSET)
        known = [value for value in (stated.get(name), current_source(name)) if value]
        if any(value != made_under for value in known or [UNSET]):
            return True
    return False
