"""Takes what an OpenAI client would send, and answers it from the cache or by the client itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stepwell.assembly.house import Plan, Surroundings
from stepwell.assembly.own_house import OwnHouse, open_own_house
from stepwell.assembly.rules import key_rules
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.names import Endpoint
from stepwell.core.ports import Headers, Upstream
from stepwell.gateway.auth import PassThrough
from stepwell.gateway.replies import header_of
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect
from stepwell.pipeline.exchange import Exchange
from stepwell.pipeline.served import Body
from stepwell.pipeline.targets import Target, Targets
from stepwell.wire.body import parse_body
from stepwell.wire.errors import error_body


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request the client is about to send."""

    endpoint: Endpoint
    headers: Mapping[str, str]
    """By lower-case name."""
    query: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The reply the client gets instead."""

    status: int
    headers: Headers
    body: bytes | Body


class Desk:
    """The cache of one client. On one event loop."""

    def __init__(self, own: OwnHouse) -> None:
        self._own = own
        self._auth = PassThrough(own.house.secret)

    @classmethod
    async def open(cls, settings: Settings, upstream: Upstream, data_dir: Path | None) -> "Desk":
        """Open the cache of a client that asks ``upstream``.

        Raises:
            ConfigError: A setting cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        plan = Plan(settings, data_dir, secret_of(settings, data_dir))

        def targets(plan: Plan, _: Surroundings) -> Targets:
            scheme = KeyScheme(upstream.identity, key_rules(plan.settings, Dialect.OPENAI))
            return Targets([Target(upstream, scheme)])

        own = await open_own_house(plan, targets)
        own.house.start_posting()
        return cls(own)

    async def answer(self, incoming: Incoming, upstream: Upstream) -> Outgoing:
        """Answer a request; ``upstream`` fetches what the cache has not.

        Raises:
            UpstreamError: It could not, and nothing stale could stand in.
        """
        house = self._own.house
        exchange = Exchange(incoming.endpoint, clock=house.clock, events=house.events)
        try:
            ask = house.intake.take(
                incoming.endpoint,
                parse_body(incoming.body),
                incoming.headers,
                self._auth.tenant(incoming.headers),
                query=incoming.query,
            )
            exchange.question = ask.question
            exchange.served = await house.runner.answer(replace(ask, upstream=upstream))
        except RequestError as error:
            exchange.fail(error)
            status, body = error_body(error)
            return Outgoing(status, (("content-type", "application/json"),), body)
        except UpstreamError as error:
            exchange.fail(error)
            raise
        exchange.end()
        served = exchange.served
        return Outgoing(served.status, header_of(served), served.body)

    async def aclose(self) -> None:
        """Write what is pending and close the stores."""
        await self._own.aclose()
