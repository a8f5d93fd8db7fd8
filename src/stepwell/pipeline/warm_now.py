"""Warming by hand: whoever serves a model reads a prompt now, and says what that took."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import msgspec

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import WarmedUp
from stepwell.core.ports import EventSink, Upstream
from stepwell.core.steering import SupportsReplicas
from stepwell.pipeline.short_reply import Refused, usage_of
from stepwell.pipeline.warm_up import StandingPrompt, read_once

_READY = "ready"


class Read(msgspec.Struct, frozen=True, tag_field="outcome", tag="read"):
    """A replica has read the prompt."""

    replica: str
    """Its name; of an upstream that is one server, the upstream's."""
    tokens: int
    """Of the prompt, as the server says; 0 where it does not."""
    cached: int | None
    """How many of them it had in its prefix cache before; null where it does not say."""
    seconds: float


class LeftOut(msgspec.Struct, frozen=True, tag_field="outcome", tag="left_out"):
    """A replica was not asked."""

    replica: str
    condition: str
    """``draining`` or ``down``."""


class Failed(msgspec.Struct, frozen=True, tag_field="outcome", tag="failed"):
    """A replica was asked, and has not read it."""

    replica: str
    why: str


Reading = Read | LeftOut | Failed


class WarmedNow(msgspec.Struct, frozen=True):
    """What became of one prompt."""

    upstream: str
    """Its name in the settings."""
    replicas: Sequence[Reading]
    """In the order of the settings."""


async def warm_now(
    upstream: Upstream, prompt: StandingPrompt, *, clock: Clock, events: EventSink
) -> WarmedNow:
    """Have every replica that is ready read a prompt, one after the other. Does not raise.

    Args:
        upstream: The prompt's. Where its replicas are not followed, it is asked as one.
        prompt: What to read.
        clock: The time.
        events: Hears of each that has read it.
    """
    readings: list[Reading] = []
    for replica, condition, ask in _asks(upstream, prompt):
        if condition != _READY:
            readings.append(LeftOut(replica, condition))
            continue
        started = clock.monotonic()
        try:
            usage = await ask()
        except (UpstreamError, RequestError, Refused) as error:
            readings.append(Failed(replica, str(error)))
            continue
        seconds = clock.monotonic() - started
        readings.append(Read(replica, usage.prompt_tokens, usage.cached_tokens, seconds))
        events.emit(WarmedUp(upstream.name, replica, prompt.name, seconds, usage))
    return WarmedNow(upstream.name, readings)


def _asks(
    upstream: Upstream, prompt: StandingPrompt
) -> Iterator[tuple[str, str, Callable[[], Awaitable[Usage]]]]:
    """Yield each replica's name, its condition, and what has it read the prompt."""
    if isinstance(upstream, SupportsReplicas):
        for report in upstream.reports():
            name = report.replica
            yield name, report.condition, partial(read_once, upstream, name, prompt)
    else:
        yield upstream.name, _READY, partial(_read_as_one, upstream, prompt)


async def _read_as_one(upstream: Upstream, prompt: StandingPrompt) -> Usage:
    return await usage_of(await upstream.send(prompt.call), upstream.name)
