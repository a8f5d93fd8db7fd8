"""A reply that is asked for only so that a model server reads the prompt."""

from http import HTTPStatus

from stepwell.core.entry import Usage
from stepwell.core.errors import StepwellError
from stepwell.core.ports import Reply
from stepwell.wire.tail import Tail

MAX_REPLY_BYTES = 1 << 20
"""Of an answer of one token. A server that writes on is left."""


class Refused(StepwellError):
    """A model server answered with something else than a short answer."""


async def usage_of(reply: Reply, name: str) -> Usage:
    """Read and close a reply; return what it says it cost, all 0 where it does not say.

    Args:
        reply: Whose body has not been read.
        name: Of the server, for the error.

    Raises:
        UpstreamError: It broke off.
        Refused: It is an error, or has no end.
    """
    tail, size = Tail(), 0
    try:
        async for chunk in reply.chunks():
            tail.feed(chunk)
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise Refused(f"{name} answered with more than was asked for")
        if reply.status != HTTPStatus.OK:
            raise Refused(f"{name} answered {int(reply.status)}")
    finally:
        await reply.aclose()
    return tail.usage() or Usage()
