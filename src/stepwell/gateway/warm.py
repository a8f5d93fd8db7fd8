"""A prompt that an operator has the model servers read now."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.core.clock import Clock
from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.targets import Targets
from stepwell.pipeline.warm_now import WarmedNow, warm_now
from stepwell.pipeline.warm_up import StandingPrompt

MAX_PIN_SECONDS = 366 * 86_400


class SystemPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many prompts begin, as the operator gives it. Body of ``POST /admin/warm``."""

    model: Annotated[str, Meta(min_length=1)]
    """The model's name, as requests give it."""
    system: Annotated[str, Meta(min_length=1)]
    """The system prompt, exactly as requests have it."""
    tools: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    """The list ``tools`` of those requests."""
    upstream: str | None = None
    """Whose replicas; default: the upstream that serves the model."""
    tenant: str | None = None
    """Whose requests (``auth.mode = "keys"``)."""
    pin_seconds: Annotated[float, Meta(ge=0, le=MAX_PIN_SECONDS)] = 0
    """How long it may not be evicted. Of an upstream of kind ``torch`` only."""
    public: bool = False
    """Whether all tenants go on from the one copy. Of such an upstream only."""


MakePrompt = Callable[[SystemPrompt], StandingPrompt]
"""Makes the call by which a prompt is read; raises `ConfigError` if the settings forbid it."""


class WarmDesk:
    """Has model servers read prompts, with the gateway's own connections, keys and salts."""

    def __init__(
        self,
        targets: Targets,
        exact: ExactLayer,
        make_prompt: MakePrompt,
        *,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Ask the model servers of ``targets``; what is to drain is heard through ``exact``."""
        self._upstreams = {target.upstream.name: target.upstream for target in targets}
        self._exact = exact
        self._make_prompt = make_prompt
        self._clock = clock
        self._events = events

    async def warm(self, asked: SystemPrompt) -> WarmedNow:
        """Have all replicas that are ready read a prompt; return what became of it.

        Takes as long as they take, one after the other.

        Raises:
            RequestError: 400, the settings do not go with what is asked.
        """
        try:
            prompt = self._make_prompt(asked)
        except ConfigError as error:
            raise RequestError(str(error)) from error
        await self._exact.catch_up()
        upstream = self._upstreams[prompt.upstream]
        return await warm_now(upstream, prompt, clock=self._clock, events=self._events)
