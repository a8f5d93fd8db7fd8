"""From ``[[prefix.warm]]`` to the calls by which replicas read those prompts."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson

from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_prefix import WarmPrompt
from stepwell.core.errors import ConfigError
from stepwell.core.names import Endpoint, Namespace
from stepwell.core.ports import Call
from stepwell.core.steering import Hold
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.warm_up import StandingPrompt
from stepwell.policy.prompt_shape.reshaping import reshape
from stepwell.wire.body import dump_body

_USER_TURN = {"role": "user", "content": "Hello"}
"""Any will do: what counts stands before it, and so is written by the template as always."""


def warmed_upstreams(settings: Settings) -> frozenset[str]:
    """Return the names of the upstreams whose replicas read prompts ahead.

    Raises:
        ConfigError: As `standing_prompts`.
    """
    tables = enumerate(settings.prefix.warm)
    return frozenset(_upstream(f"prefix.warm.{at}", one, settings) for at, one in tables)


def standing_prompts(settings: Settings, secret: bytes) -> Sequence[StandingPrompt]:
    """Return the prompts of the settings. Reads the files that they name.

    Args:
        settings: All, as rewrites, tenants and salts count.
        secret: What namespaces are made with.

    Raises:
        ConfigError: Names the key, and what is allowed.
    """
    return [
        _prompt(f"prefix.warm.{at}", one, settings, secret)
        for at, one in enumerate(settings.prefix.warm)
    ]


def _prompt(where: str, table: WarmPrompt, settings: Settings, secret: bytes) -> StandingPrompt:
    upstream = _upstream(where, table, settings)
    hold = _hold(where, table, settings.upstreams[upstream].kind)
    namespace = None
    if not table.public:
        namespace = _namespace(where, table, upstream, settings, secret)
    body = reshape(Endpoint.CHAT, _body(where, table), settings.prefix.rewrite).body
    call = Call(Endpoint.CHAT, dump_body(body), (), namespace=namespace)
    return StandingPrompt(where, upstream, call, table.every_seconds, hold)


def _hold(where: str, table: WarmPrompt, kind: str) -> Hold | None:
    if not (table.pin_seconds or table.public):
        return None
    if kind != "torch":
        key = "public" if table.public else "pin_seconds"
        raise ConfigError(
            f'{where}.{key} goes with upstreams of kind = "torch", whose KV is kept here; of others'
            " every_seconds keeps it warm."
        )
    return Hold(table.pin_seconds, is_public=table.public)


def _body(where: str, table: WarmPrompt) -> dict[str, Any]:
    """Return a request that begins as those do that are to come."""
    system = table.system
    if table.system_file is not None:
        system = _read(f"{where}.system_file", table.system_file)
    body: dict[str, Any] = {
        "model": table.model,
        "messages": [{"role": "system", "content": system}, _USER_TURN],
    }
    if table.tools_file is not None:
        body["tools"] = _tools(f"{where}.tools_file", table.tools_file)
    return {**body, "max_tokens": 1, "temperature": 0}


def _tools(setting: str, name: str) -> list[Any]:
    try:
        tools = orjson.loads(_read(setting, name))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{setting}: {name} is not JSON: {error}.") from error
    if not isinstance(tools, list) or not tools:
        raise ConfigError(f"{setting}: {name} must hold a JSON list, the `tools` of the requests.")
    return tools


def _read(setting: str, name: str) -> str:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{setting}: {name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{setting}: {name} is not UTF-8 text.") from error
    if not text:
        raise ConfigError(f"{setting}: {name} is empty.")
    return text


def _upstream(where: str, table: WarmPrompt, settings: Settings) -> str:
    if table.upstream is not None:
        if table.upstream not in settings.upstreams:
            known = ", ".join(settings.upstreams)
            raise ConfigError(f"{where}.upstream is {table.upstream!r}; allowed: {known}.")
        return table.upstream
    for name, upstream in settings.upstreams.items():
        if any(fnmatchcase(table.model, pattern) for pattern in upstream.models):
            return name
    raise ConfigError(f"{where}.model is {table.model!r}, which no upstream serves.")


def _namespace(
    where: str, table: WarmPrompt, upstream: str, settings: Settings, secret: bytes
) -> Namespace | None:
    """Return whose requests the prompt begins."""
    if table.tenant is not None:
        known = sorted({key.tenant for key in settings.auth.keys})
        if table.tenant not in known:
            allowed = f"allowed: {', '.join(known)}" if known else 'it goes with auth.mode = "keys"'
            raise ConfigError(f"{where}.tenant is {table.tenant!r}; {allowed}.")
        return Tenant(f"name:{table.tenant}", secret).own_namespace
    if settings.auth.mode == "shared":
        return Tenant("shared", secret).own_namespace
    if settings.upstreams[upstream].is_salted:
        raise ConfigError(
            f"{where}.tenant is missing: upstreams.{upstream} keeps tenants' prefixes apart, so a"
            ' prompt of nobody\'s is of no use to them. Allowed: a tenant, with auth.mode = "keys";'
            f' or upstreams.{upstream}.prefix.salt = "off", and then all share.'
        )
    return None
