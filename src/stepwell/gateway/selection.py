"""Which entries an operator means."""

import msgspec

from stepwell.core.entry import Selector
from stepwell.core.errors import RequestError
from stepwell.core.names import EVERYONE, CacheKey, Namespace
from stepwell.wire.cache_groups import TooManyGroups, UnreadableGroups, read_groups


class Invalidation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /admin/invalidate``. What is given must all match."""

    key: str | None = None
    """As in ``X-Stepwell-Key``."""
    namespace: str | None = None
    """As in the log's ``tenant``."""
    model: str | None = None
    request_class: str | None = msgspec.field(default=None, name="class")
    tag: str | None = None
    everything: bool = False
    """Must be true where nothing else is given."""
    dry_run: bool = True
    """Count what would go; nothing goes unless this is false."""


def selector_of(asked: Invalidation) -> Selector:
    """Return the entries an invalidation means.

    Raises:
        RequestError: It says nothing, or not what a key or namespace looks like.
    """
    key = None if asked.key is None else from_hex("key", asked.key, 32)
    namespace = (
        None if asked.namespace is None else from_hex("namespace", asked.namespace, len(EVERYONE))
    )
    selector = Selector(
        namespace=None if namespace is None else Namespace(namespace),
        key=None if key is None else CacheKey(key),
        model=asked.model,
        request_class=asked.request_class,
        tag=asked.tag,
    )
    if (selector == Selector()) != asked.everything:
        raise RequestError(
            "Say which entries: key, namespace, model, class or tag; or everything, alone."
        )
    return selector


def selectors_of(asked: Invalidation, groups: str | None) -> tuple[Selector, ...]:
    """Return the entries an invalidation means, of any of some groups.

    Args:
        asked: The body.
        groups: The field ``Cache-Group-Invalidation`` (RFC 9875), another way to name tags.

    Raises:
        RequestError: As `selector_of`; or the field cannot be read, or names none.
    """
    if groups is None:
        return (selector_of(asked),)
    try:
        tags = read_groups(groups)
    except (UnreadableGroups, TooManyGroups) as error:
        raise _bad_groups(f"cannot be read: {error}") from error
    if not tags or asked.tag is not None:
        raise _bad_groups("must name groups, in place of 'tag' in the body")
    return tuple(selector_of(msgspec.structs.replace(asked, tag=tag)) for tag in tags)


def _bad_groups(complaint: str) -> RequestError:
    name = "Cache-Group-Invalidation"
    return RequestError(f"'{name}' {complaint}.", code="invalid_control", param=name)


def from_hex(name: str, text: str, length: int) -> bytes:
    """Return ``length`` bytes written in hexadecimal.

    Raises:
        RequestError: They are not; names the field.
    """
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != length:
        raise RequestError(f"{name} must be {2 * length} hexadecimal digits.", param=name)
    return value
