"""How one worker hands another the reply it reads from the model server: frame by frame.

The reader says which flight it wants, and under which circumstances the answer is of use to it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from enum import StrEnum

import msgspec

from stepwell.core.entry import SourceValue, Usage
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamError, UpstreamTimeout
from stepwell.core.names import CacheKey, Form, Position
from stepwell.pipeline.circle import Followed
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import End, Flight, Head, Landed
from stepwell.pipeline.leg import BorrowedLeg

MAX_PIECE_BYTES = 64 << 10
"""About how much goes into a frame."""


class Kind(StrEnum):
    """Of a frame."""

    HEAD = "H"
    """How the reply begins."""
    DATA = "D"
    """Bytes of the body."""
    END = "E"
    """There are no more."""
    ERROR = "X"
    """The call failed."""
    NOT_HERE = "N"
    """No such flight, or not any more."""
    OUTDATED = "O"
    """The flight's answer is of no use to who asks."""


Frame = tuple[Kind, bytes]


class Torn(Exception):
    """No more frames come, and the last that came was not the last."""


class Wanted(msgspec.Struct, array_like=True, frozen=True):
    """Which flight, and under which circumstances its answer is of use."""

    key: bytes
    last_invalidation: int
    sources: tuple[tuple[str, str], ...]


class _Head(msgspec.Struct, array_like=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    form: Form


class _Cost(msgspec.Struct, array_like=True):
    prompt_tokens: int
    completion_tokens: int
    upstream_seconds: float
    cached_tokens: int | None = None
    """Not told by workers of a version before it."""


class _Failure(msgspec.Struct, array_like=True):
    upstream: str
    message: str
    late: bool


def wanted_for(key: CacheKey, made: Made) -> Wanted:
    """Return what a flight that was made under such circumstances can use."""
    sources = tuple((source.name, source.value) for source in made.sources)
    return Wanted(key, made.last_invalidation, sources)


async def hand_over(
    flight: Flight | None, wanted: Wanted, send: Callable[[Kind, bytes], Awaitable[None]]
) -> None:
    """Send what ``flight`` brings, as it comes, to its end. Raises what ``send`` does."""
    if flight is None or flight.stopped:
        await send(Kind.NOT_HERE, b"")
    elif not _suits(flight, wanted):
        await send(Kind.OUTDATED, b"")
    else:
        await _send_flight(flight, send)


async def take_over(frames: AsyncGenerator[Frame], leg: BorrowedLeg) -> Followed:
    """Write what another hands over into ``leg``, as it comes.

    Raises:
        Diverged: It is something else than the flight has already.
    """
    try:
        async with aclosing(frames):
            async for kind, body in frames:
                followed = await _take(kind, body, leg)
                if followed is not None:
                    return followed
    except (Torn, msgspec.DecodeError):
        pass
    return Followed.TO_THE_END if leg.lose() else Followed.LOST


async def _take(kind: Kind, body: bytes, leg: BorrowedLeg) -> Followed | None:
    """Take one frame; return how it went if it was the last."""
    match kind:
        case Kind.HEAD:
            head = msgspec.msgpack.decode(body, type=_Head)
            leg.begin(Head(head.status, head.headers, head.form))
            return None
        case Kind.DATA:
            await leg.extend(body)
            return None
        case Kind.END:
            await leg.land(_landed(body))
            return Followed.TO_THE_END
        case Kind.ERROR:
            return _fail(msgspec.msgpack.decode(body, type=_Failure), leg)
        case Kind.NOT_HERE:
            return Followed.NOT_THERE
        case Kind.OUTDATED:
            return Followed.OUTDATED


def _suits(flight: Flight, wanted: Wanted) -> bool:
    """Return whether who wants it can use it. What is not kept whole has no beginning any more."""
    sources = tuple(SourceValue(name, value) for name, value in wanted.sources)
    return flight.kept_whole and flight.made.suits(Position(wanted.last_invalidation), sources)


async def _send_flight(flight: Flight, send: Callable[[Kind, bytes], Awaitable[None]]) -> None:
    reader = flight.join()
    try:
        head = await reader.head()
        shown = _Head(head.status, head.headers, head.form)
        await send(Kind.HEAD, msgspec.msgpack.encode(shown))
        async for piece in reader.pieces(MAX_PIECE_BYTES):
            await send(Kind.DATA, piece)
        await send(Kind.END, _cost(flight.end))
    except UpstreamError as error:
        failure = _Failure(error.upstream, str(error), isinstance(error, UpstreamTimeout))
        await send(Kind.ERROR, msgspec.msgpack.encode(failure))
    except RequestError:
        # The fault of who asked here; the other may do better.
        await send(Kind.NOT_HERE, b"")
    finally:
        reader.leave()


def _cost(end: End | None) -> bytes:
    """Return what is saved by who did not make the call; nothing if that is not known."""
    if not isinstance(end, Landed):
        return b""
    usage, seconds = end.usage, end.upstream_seconds
    if end.entry is not None:
        usage, seconds = end.entry.usage, end.entry.upstream_seconds
    if usage is None:
        return b""
    return msgspec.msgpack.encode(
        _Cost(usage.prompt_tokens, usage.completion_tokens, seconds, usage.cached_tokens)
    )


def _landed(cost: bytes) -> Landed:
    if not cost:
        return Landed(None)
    told = msgspec.msgpack.decode(cost, type=_Cost)
    usage = Usage(told.prompt_tokens, told.completion_tokens, told.cached_tokens)
    return Landed(None, usage=usage, upstream_seconds=told.upstream_seconds)


def _fail(failure: _Failure, leg: BorrowedLeg) -> Followed:
    kind = UpstreamTimeout if failure.late else UpstreamBroken
    over = leg.crash(kind(failure.message, upstream=failure.upstream))
    return Followed.TO_THE_END if over else Followed.FAILED
