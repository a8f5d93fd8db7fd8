"""The secret that namespaces are derived with: made once, kept beside the entries."""

import errno
import os
import secrets
from pathlib import Path

from stepwell.assembly.environment import secret_from
from stepwell.assembly.settings import Settings
from stepwell.core.errors import ConfigError
from stepwell.keys.namespace import SECRET_BYTES

_FILE = "namespace.key"
_MADE_BYTES = 32


def namespace_secret(data_dir: Path) -> bytes:
    """Return the secret in ``data_dir``; make one where there is none.

    The same for every process that shares the directory, also for those that start at once.

    Raises:
        ConfigError: The directory cannot be used, or the file holds no secret.
    """
    path = data_dir / _FILE
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        secret = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"data_dir: {path} cannot be used ({error.strerror}); {_advice(error)},"
            " or set auth.namespace_secret_env."
        ) from error
    if len(secret) < SECRET_BYTES:
        raise ConfigError(f"{path} holds {len(secret)} bytes, too few for a secret; remove it.")
    return secret


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space for a first start"
    return "set data_dir to a directory this user can write"


def secret_of(settings: Settings, data_dir: Path | None) -> bytes:
    """Return the secret of the settings, or else the one in ``data_dir``; without a directory, one
    that ends with this process.

    Raises:
        ConfigError: It cannot be had.
    """
    name = settings.auth.namespace_secret_env
    if name is None:
        return secrets.token_bytes(_MADE_BYTES) if data_dir is None else namespace_secret(data_dir)
    secret = secret_from(name, setting="auth.namespace_secret_env").encode()
    if len(secret) < SECRET_BYTES:
        raise ConfigError(
            f"auth.namespace_secret_env: {name} holds {len(secret)} characters;"
            f" allowed: {SECRET_BYTES} or more."
        )
    return secret


def _make(path: Path) -> None:
    """Write a new secret aside and link it into place: the first of several processes wins."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_MADE_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass  # Somebody was faster; theirs counts.
    finally:
        aside.unlink()
