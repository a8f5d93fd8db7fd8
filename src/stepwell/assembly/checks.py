"""What can be told of the settings without starting anything."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from stepwell.assembly.authentication import make_authenticator
from stepwell.assembly.embedding_models import check_embedding
from stepwell.assembly.engines import torch_settings
from stepwell.assembly.environment import default_data_dir, secret_from
from stepwell.assembly.extras import extra_for
from stepwell.assembly.in_force import calibration_in_force
from stepwell.assembly.rules import request_classes, routes
from stepwell.assembly.settings import Redis, Settings
from stepwell.assembly.standing import standing_prompts
from stepwell.core.errors import ConfigError
from stepwell.engines.http_address import parse_base_url
from stepwell.engines.torch.weights_path import check_weights
from stepwell.gateway.loopback import is_loopback

LITTLE_SPACE_BYTES = 1 << 20
"""Less than SQLite needs beside its files to open them and to write a little."""


def data_directory(settings: Settings) -> Path:
    """Return where this installation keeps its data."""
    if settings.data_dir is None:
        return default_data_dir()
    return Path(settings.data_dir).expanduser()


def make_usable(data_dir: Path) -> None:
    """Make the directory, for this user only, if it is not there.

    Raises:
        ConfigError: It is something else, or this user cannot write there.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(data_dir, os.R_OK | os.W_OK | os.X_OK)
        problem = "is not writable for this user"
    except FileExistsError:
        usable, problem = False, "is not a directory"
    except OSError as error:
        usable, problem = False, f"cannot be made ({error.strerror})"
    if not usable:
        raise ConfigError(f"data_dir: {data_dir} {problem}; set it to a directory that is.")


def warnings(settings: Settings) -> Iterator[str]:
    """Yield what is allowed and yet hardly meant."""
    for name, upstream in settings.upstreams.items():
        table = f"upstreams.{name}"
        named = [("base_url is", url) for url in (upstream.base_url,) if url is not None]
        named += [("replicas has", url) for url in upstream.replicas]
        for said, url in named:
            if not parse_base_url(table, url).path:
                yield (
                    f"upstreams.{name}.{said} {url!r}, without a path;"
                    " OpenAI-compatible servers are reached at .../v1."
                )
    if settings.stores.redis.url is not None and settings.auth.namespace_secret_env is None:
        yield (
            "stores.redis.url is set, and auth.namespace_secret_env is not: tenants are named by a"
            " secret of this data directory, so no other gateway finds their answers. Set it, to"
            " the same secret in all gateways."
        )
    if settings.stores.redis.url is None and settings.stores.redis != Redis():
        yield "[stores.redis] has no url (and there is no --redis): Redis is not used."


def shortages(data_dir: Path) -> Iterator[str]:
    """Yield what the gateway can do without for a while, and should not for long."""
    free_bytes = shutil.disk_usage(data_dir).free
    if free_bytes < LITTLE_SPACE_BYTES:
        yield (
            f"data_dir: only {free_bytes} bytes are free for {data_dir}. Answers stay in memory"
            " until there is space; nothing needs to be restarted then."
        )


def check(settings: Settings, secret: bytes) -> None:
    """Check what can be checked without starting anything.

    Raises:
        ConfigError: Names the key, its value and what is allowed.
    """
    routes(settings, request_classes(settings))
    make_authenticator(settings.auth, secret)
    for name, upstream in settings.upstreams.items():
        if upstream.base_url is not None:
            parse_base_url(f"upstreams.{name}", upstream.base_url)
        if upstream.api_key_env is not None:
            secret_from(upstream.api_key_env, setting=f"upstreams.{name}.api_key_env")
    if settings.server.admin_token_env is not None:
        secret_from(settings.server.admin_token_env, setting="server.admin_token_env")
    standing_prompts(settings, secret)
    _check_torch(settings)
    _check_judge(settings)
    _check_semantic(settings)
    check_embedding(settings)
    _check_redis(settings)
    _check_open_door(settings)


def _check_torch(settings: Settings) -> None:
    """Refuse models of ours that are not there, or that no request can reach.

    Raises:
        ConfigError: Names the key.
    """
    for name, upstream in settings.upstreams.items():
        if upstream.kind != "torch":
            continue
        if upstream.torch.weights is not None:
            check_weights(f"upstreams.{name}.torch.weights", Path(upstream.torch.weights))
        torch_settings(name, upstream, data_directory(settings))


def _check_judge(settings: Settings) -> None:
    """Refuse a judge's upstream that is none.

    Raises:
        ConfigError: Names the key.
    """
    name, names = settings.semantic.judge.upstream, sorted(settings.upstreams)
    if name is not None and name not in names:
        raise ConfigError(f"semantic.judge.upstream is {name!r}; allowed: {', '.join(names)}.")


def _check_semantic(settings: Settings) -> None:
    """Refuse levels that contradict each other, opposites that cannot be read, no address.

    Raises:
        ConfigError: Names the key.
    """
    endpoint = settings.semantic.endpoint
    if endpoint is not None:
        parse_base_url("semantic.endpoint", endpoint.base_url)
        if endpoint.api_key_env is not None:
            secret_from(endpoint.api_key_env, setting="semantic.endpoint.api_key_env")
    if calibration_in_force(settings) is None:
        return
    from stepwell.assembly.deciding import checks_of  # noqa: PLC0415  (an extra)

    checks_of(settings.semantic)


def _check_redis(settings: Settings) -> None:
    """Refuse an address, secrets and files that no waiting mends.

    Raises:
        ConfigError: Names the key.
    """
    table = settings.stores.redis
    if table.url is None:
        return
    with extra_for("stores.redis.url is set", "redis"):
        from stepwell.assembly.redis import check_redis  # noqa: PLC0415  (an extra)
    check_redis(table, table.url, searches=settings.semantic.index.kind == "redis")


def _check_open_door(settings: Settings) -> None:
    """Refuse to lend the operator's key to anybody who can reach the gateway.

    Raises:
        ConfigError: Callers' keys are passed through unseen, to a server that gets another.
    """
    lent = [name for name, table in settings.upstreams.items() if table.api_key_env is not None]
    if settings.auth.mode == "passthrough" and lent and not is_loopback(settings.server.host):
        raise ConfigError(
            f"auth.mode is 'passthrough', upstreams.{lent[0]} is sent the key of api_key_env, and"
            f" server.host is {settings.server.host!r}: nobody would check who asks. Allowed:"
            " auth.mode 'keys', or 'shared' if everybody who can reach it may; or a loopback host."
        )
