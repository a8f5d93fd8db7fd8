"""From ``[upstreams]`` to model servers over HTTP. Needs the ``gateway`` extra."""

from stepwell.assembly.environment import secret_from
from stepwell.assembly.house import Plan, key_rules
from stepwell.assembly.settings_upstreams import Upstream as UpstreamTable
from stepwell.core.errors import ConfigError
from stepwell.core.ports import EventSink
from stepwell.engines.embedded import EngineAddress
from stepwell.engines.http import HttpUpstream
from stepwell.keys.cache_key import KeyScheme
from stepwell.pipeline.targets import Target, Targets


def http_targets(plan: Plan, events: EventSink) -> Targets:
    """Return the model servers of the settings, in their order.

    Raises:
        ConfigError: Names the upstream and the key.
    """
    tables = plan.settings.upstreams
    return Targets([_target(name, table, plan, events) for name, table in tables.items()])


def _target(name: str, table: UpstreamTable, plan: Plan, events: EventSink) -> Target:
    rules = key_rules(plan.settings, table.dialect)
    base_url, api_key, identity = _address(name, table, plan.engine)
    upstream = HttpUpstream(
        name,
        base_url,
        identity=f"{identity} {table.revision}",
        events=events,
        api_key=api_key,
        connect_timeout_seconds=table.connect_timeout_seconds,
        first_byte_timeout_seconds=table.first_byte_timeout_seconds,
        chunk_timeout_seconds=table.chunk_timeout_seconds,
        max_connections=table.max_connections,
    )
    takes_callers_key = api_key is None and plan.settings.auth.mode != "keys"
    return Target(upstream, KeyScheme(upstream.identity, rules), table.models, takes_callers_key)


def _address(
    name: str, table: UpstreamTable, engine: EngineAddress | None
) -> tuple[str, str | None, str]:
    """Return base URL, key and identity of an upstream."""
    if table.kind == "embedded":
        if engine is None:
            raise ConfigError(f"upstreams.{name} is the embedded model, which is not running.")
        return engine.base_url, engine.api_key, engine.identity
    if table.base_url is None:
        raise ConfigError(f"upstreams.{name}.base_url is missing.")
    api_key = None
    if table.api_key_env is not None:
        api_key = secret_from(table.api_key_env, setting=f"upstreams.{name}.api_key_env")
    return table.base_url, api_key, table.base_url.rstrip("/")
