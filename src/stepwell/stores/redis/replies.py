"""What a reply must be. Anything else means that the server is not what it should be."""

from collections.abc import Iterator

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.redis.link import Reply


def integer(reply: Reply) -> int:
    """Return a number, which may be written in decimal. Raises `StoreUnavailable`."""
    if isinstance(reply, int | bytes):
        try:
            return int(reply)
        except ValueError as error:
            raise _unexpected("a number", reply) from error
    raise _unexpected("a number", reply)


def string(reply: Reply) -> bytes:
    """Return bytes. Raises `StoreUnavailable`."""
    if isinstance(reply, bytes):
        return reply
    raise _unexpected("a string", reply)


def items(reply: Reply) -> list[Reply]:
    """Return a list. Raises `StoreUnavailable`."""
    if isinstance(reply, list):
        return reply
    raise _unexpected("a list", reply)


def pairs(reply: Reply) -> Iterator[tuple[bytes, bytes]]:
    """Yield what stands in a list two by two. Raises `StoreUnavailable`."""
    found = items(reply)
    for at in range(0, len(found) - 1, 2):
        yield string(found[at]), string(found[at + 1])


def stream_entries(reply: Reply) -> Iterator[tuple[int, dict[bytes, bytes]]]:
    """Yield the entries of one stream: the first part of the id, and the fields.

    Raises:
        StoreUnavailable: It is none.
    """
    for entry in items(reply):
        identifier, fields = items(entry)
        yield integer(string(identifier).partition(b"-")[0]), dict(pairs(fields))


def _unexpected(what: str, reply: Reply) -> StoreUnavailable:
    return StoreUnavailable(f"the server answered {str(reply)[:60]!r} instead of {what}")
