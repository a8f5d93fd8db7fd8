"""From system prompts, of the settings or an operator's, to the calls by which they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from stepwell.gateway.warm import SystemPrompt
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.warm_up import StandingPrompt
from stepwell.policy.prompt_shape.reshaping import reshape
from stepwell.wire.body import dump_body

_USER_TURN = {"role": "user", "content": "Hello"}
"""Any will do: what counts stands before it, and so is written by the template as always."""


def warmed_upstreams(settings: Settings) -> Mapping[str, str]:
    """Return which upstream's replicas read each prompt, by where the settings have it.

    Raises:
        ConfigError: As `standing_prompts`.
    """
    return {
        where: _upstream(where, table.model, table.upstream, settings)
        for where, table in _tables(settings)
    }


def standing_prompts(settings: Settings, secret: bytes) -> Sequence[StandingPrompt]:
    """Return the prompts of the settings. Reads the files that they name.

    Args:
        settings: All, as rewrites, tenants and salts count.
        secret: What namespaces are made with.

    Raises:
        ConfigError: Names the key, and what is allowed.
    """
    prompts = []
    for where, table in _tables(settings):
        prompt = _prompt(where, system_prompt(where, table), settings, secret)
        prompts.append(replace(prompt, every_seconds=table.every_seconds))
    return prompts


def system_prompts(settings: Settings) -> Mapping[str, SystemPrompt]:
    """Return the prompts of the settings, by where these have them. Reads the files they name.

    Raises:
        ConfigError: Names the key, and what is allowed.
    """
    return {where: system_prompt(where, table) for where, table in _tables(settings)}


def system_prompt(where: str, table: WarmPrompt) -> SystemPrompt:
    """Return a table with what its files hold.

    Raises:
        ConfigError: One of them cannot be used.
    """
    system, tools = table.system, None
    if table.system_file is not None:
        system = _read(f"{where}.system_file", table.system_file)
    if table.tools_file is not None:
        tools = _tools(f"{where}.tools_file", table.tools_file)
    return SystemPrompt(
        model=table.model,
        system=system or "",
        tools=tools,
        upstream=table.upstream,
        tenant=table.tenant,
        pin_seconds=table.pin_seconds,
        public=table.public,
    )


def prompt_asked(settings: Settings, secret: bytes, given: SystemPrompt) -> StandingPrompt:
    """Return the call by which an operator's prompt is read, with these settings.

    Raises:
        ConfigError: They do not go together; says what does.
    """
    return _prompt("admin", given, settings, secret)


def _tables(settings: Settings) -> Iterator[tuple[str, WarmPrompt]]:
    for at, table in enumerate(settings.prefix.warm):
        yield f"prefix.warm.{at}", table


def _prompt(where: str, given: SystemPrompt, settings: Settings, secret: bytes) -> StandingPrompt:
    upstream = _upstream(where, given.model, given.upstream, settings)
    if given.public and given.tenant is not None:
        raise ConfigError(f"{where}: public and tenant do not go together.")
    hold = _hold(where, given, settings.upstreams[upstream].kind)
    namespace = None
    if not given.public:
        namespace = _namespace(where, given, upstream, settings, secret)
    body = reshape(Endpoint.CHAT, _body(given), settings.prefix.rewrite).body
    call = Call(Endpoint.CHAT, dump_body(body), (), namespace=namespace)
    return StandingPrompt(where, upstream, call, hold=hold)


def _upstream(where: str, model: str, named: str | None, settings: Settings) -> str:
    if named is not None:
        if named not in settings.upstreams:
            known = ", ".join(settings.upstreams)
            raise ConfigError(f"{where}.upstream is {named!r}; allowed: {known}.")
        return named
    for name, upstream in settings.upstreams.items():
        if any(fnmatchcase(model, pattern) for pattern in upstream.models):
            return name
    raise ConfigError(f"{where}.model is {model!r}, which no upstream serves.")


def _hold(where: str, given: SystemPrompt, kind: str) -> Hold | None:
    if not (given.pin_seconds or given.public):
        return None
    if kind != "torch":
        key = "public" if given.public else "pin_seconds"
        raise ConfigError(
            f'{where}.{key} goes with upstreams of kind = "torch", whose KV is kept here; of others'
            " every_seconds keeps it warm."
        )
    return Hold(given.pin_seconds, is_public=given.public)


def _body(given: SystemPrompt) -> dict[str, Any]:
    """Return a request that begins as those do that are to come."""
    body: dict[str, Any] = {
        "model": given.model,
        "messages": [{"role": "system", "content": given.system}, _USER_TURN],
    }
    if given.tools is not None:
        body["tools"] = given.tools
    return {**body, "max_tokens": 1, "temperature": 0}


def _tools(setting: str, name: str) -> list[Any]:
    try:
        tools = orjson.loads(_read(setting, name))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{setting}: {name} is not JSON: {error}.") from error
    if not (isinstance(tools, list) and tools and all(isinstance(one, dict) for one in tools)):
        raise ConfigError(
            f"{setting}: {name} must hold a JSON list of objects, the `tools` of the requests."
        )
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


def _namespace(
    where: str, given: SystemPrompt, upstream: str, settings: Settings, secret: bytes
) -> Namespace | None:
    """Return whose requests the prompt begins."""
    if given.tenant is not None:
        known = sorted({key.tenant for key in settings.auth.keys})
        if given.tenant not in known:
            allowed = f"allowed: {', '.join(known)}" if known else 'it goes with auth.mode = "keys"'
            raise ConfigError(f"{where}.tenant is {given.tenant!r}; {allowed}.")
        return Tenant(f"name:{given.tenant}", secret).own_namespace
    if settings.auth.mode == "shared":
        return Tenant("shared", secret).own_namespace
    if settings.upstreams[upstream].is_salted:
        raise ConfigError(
            f"{where}.tenant is missing: upstreams.{upstream} keeps tenants' prefixes apart, so a"
            ' prompt of nobody\'s is of no use to them. Allowed: a tenant, with auth.mode = "keys";'
            f' or upstreams.{upstream}.prefix.salt = "off", and then all share.'
        )
    return None
