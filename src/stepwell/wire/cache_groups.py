"""Groups of answers that are invalidated together (RFC 9875): two lists of strings.

``Cache-Groups`` says which groups a reply belongs to, ``Cache-Group-Invalidation`` which groups the
reply to an unsafe request makes go. Groups are compared character by character; parameters mean
nothing here, and the order of members nothing either.
"""

from collections.abc import Iterable
from typing import cast

import http_sf

from stepwell.core.ports import Headers
from stepwell.wire.markers import MAX_NAME_CHARACTERS

GROUPS = "cache-groups"
INVALIDATION = "cache-group-invalidation"

MAX_GROUPS = 32
"""In one field, of at most `MAX_NAME_CHARACTERS` each; the RFC demands 32 of 32 (2 and 3)."""

_MAX_FIELD_CHARACTERS = MAX_GROUPS * (2 * MAX_NAME_CHARACTERS + 64)
"""A longer field is not read: to parse it takes time on the event loop."""


class UnreadableGroups(ValueError):
    """The field is no list of strings. It is as if it were not there (RFC 9651, 4.2)."""


class TooManyGroups(ValueError):
    """More groups, or longer ones, than are kept."""


def field_of(headers: Headers, name: str) -> str:
    """Return a field, lines of the same name joined (RFC 9651, 4.2); empty if there is none."""
    return ", ".join([value for field, value in headers if field == name])


def read_groups(field: str) -> tuple[str, ...]:
    """Return the groups that a field names, each once, in order. Costs 3 us a group.

    Raises:
        UnreadableGroups: It is no list of strings.
        TooManyGroups: It names more than are kept.
    """
    if not field:
        return ()
    if len(field) > _MAX_FIELD_CHARACTERS:
        raise TooManyGroups(f"a field of {len(field)} characters")
    try:
        members = cast("Iterable[object]", http_sf.parse(field.encode(), tltype="list"))
    except http_sf.StructuredFieldError as error:
        raise UnreadableGroups(str(error)) from error
    groups: dict[str, None] = {}
    for value in map(_string_of, members):
        if len(value) > MAX_NAME_CHARACTERS:
            raise TooManyGroups(f"a group of {len(value)} characters")
        groups[value] = None
    if len(groups) > MAX_GROUPS:
        raise TooManyGroups(f"{len(groups)} groups")
    return tuple(groups)


def _string_of(member: object) -> str:
    match member:
        # A token is of a type derived from strings.
        case (str(value), _) if type(value) is str:
            return value
        case _:
            raise UnreadableGroups("a member is no string")


def write_groups(tags: Iterable[str]) -> str:
    """Return the field that names ``tags``; without those that no string can say, as it is ASCII.

    Empty if none is left: then there is no field.
    """
    return ", ".join([http_sf.ser(tag) for tag in tags if tag.isascii() and tag.isprintable()])
