"""From ``[upstreams]`` to model servers over HTTP. Needs the ``gateway`` extra."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from stepwell.assembly.environment import secret_from
from stepwell.assembly.house import Plan, Surroundings
from stepwell.assembly.rules import key_rules
from stepwell.assembly.settings_upstreams import Upstream as UpstreamTable
from stepwell.assembly.standing import warmed_upstreams
from stepwell.assembly.steering import steered, wants_steering
from stepwell.core.errors import ConfigError
from stepwell.core.events import Event
from stepwell.core.ports import EventSink, Upstream
from stepwell.engines.http import HttpUpstream
from stepwell.engines.slotted import SlottedUpstream
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect
from stepwell.pipeline.targets import Target, Targets
from stepwell.policy.prompt_shape.reshaping import shape_identity
from stepwell.prefix.placement.replicas import ReplicaName
from stepwell.prefix.steering.servers import Replica


@dataclass(frozen=True, slots=True)
class _Server:
    """Where a model server is, and who it is."""

    base_urls: tuple[str, ...]
    api_key: str | None
    identity: str
    slots: int = 1
    """Of llama.cpp's kind, which are chosen here."""


class Unheard:
    """An `EventSink` for what is no news."""

    def emit(self, event: Event) -> None:
        """Do nothing."""


def http_targets(plan: Plan, around: Surroundings) -> Targets:
    """Return the model servers of the settings, in their order.

    Raises:
        ConfigError: Names the upstream and the key.
    """
    tables = plan.settings.upstreams
    return Targets([_target(name, table, plan, around) for name, table in tables.items()])


def _target(name: str, table: UpstreamTable, plan: Plan, around: Surroundings) -> Target:
    dialect = table.dialect if table.protocol is None else Dialect.ENGINE
    rules = key_rules(plan.settings, dialect)
    server = _server(name, table, plan)
    identity = f"{server.identity} {table.revision}"
    make = partial(_one, name, identity, table, server, around.events)
    # What fails at a server's own routes is said by who asked there, and is no failed call.
    make_root = partial(_one, name, identity, table, server, Unheard())
    upstream: Upstream
    if wants_steering(table) or name in warmed_upstreams(plan.settings).values():
        replicas = [
            Replica(ReplicaName(replica), make(url), make_root(root_of(url)))
            for replica, url in _named(server.base_urls).items()
        ]
        upstream = steered(name, identity, table, replicas, plan.secret, around)
    else:
        upstream = make(server.base_urls[0])
    takes_callers_key = server.api_key is None and plan.settings.auth.mode != "keys"
    shape = shape_identity(plan.settings.prefix.rewrite)
    named = f"{identity}\0{shape}" if shape else identity
    return Target(upstream, KeyScheme(named, rules), table.models, takes_callers_key)


def _one(
    name: str,
    identity: str,
    table: UpstreamTable,
    server: _Server,
    events: EventSink,
    base_url: str,
) -> Upstream:
    upstream = HttpUpstream(
        name,
        base_url,
        identity=identity,
        events=events,
        api_key=server.api_key,
        connect_timeout_seconds=table.connect_timeout_seconds,
        first_byte_timeout_seconds=table.first_byte_timeout_seconds,
        chunk_timeout_seconds=table.chunk_timeout_seconds,
        max_connections=table.max_connections,
    )
    return SlottedUpstream(upstream, server.slots) if server.slots > 1 else upstream


def _server(name: str, table: UpstreamTable, plan: Plan) -> _Server:
    if table.kind != "openai":
        engine = plan.engines.get(name)
        if engine is None:
            raise ConfigError(f"upstreams.{name} is a model of ours, which is not running.")
        return _Server((engine.base_url,), engine.api_key, engine.identity, engine.slots)
    api_key = None
    if table.api_key_env is not None:
        api_key = secret_from(table.api_key_env, setting=f"upstreams.{name}.api_key_env")
    if table.base_url is not None:
        return _Server((table.base_url,), api_key, table.base_url.rstrip("/"))
    # Not its addresses: with each replica that comes or goes all keys would be others.
    return _Server(table.replicas, api_key, f"replicas of {name}")


def _named(base_urls: tuple[str, ...]) -> Mapping[str, str]:
    """Return the addresses by what to call them: host and port, where that tells them apart."""
    named = {urlsplit(url).netloc: url for url in base_urls}
    return named if len(named) == len(base_urls) else {url: url for url in base_urls}


def root_of(base_url: str) -> str:
    """Return where a server's own routes are, those that are not OpenAI's."""
    return base_url.rstrip("/").removesuffix("/v1")
