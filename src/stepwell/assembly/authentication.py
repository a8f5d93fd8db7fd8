"""From ``[auth]`` to an authenticator."""

import hashlib
from typing import assert_never

from stepwell.assembly.environment import secret_from
from stepwell.assembly.settings import Auth, AuthKey
from stepwell.gateway.auth import Authenticator, ConfiguredKeys, PassThrough, Shared


def make_authenticator(auth: Auth, secret: bytes) -> Authenticator:
    """Return what tells tenants apart.

    Raises:
        ConfigError: A variable that a key names is not set.
    """
    match auth.mode:
        case "passthrough":
            return PassThrough(secret)
        case "shared":
            return Shared(secret)
        case "keys":
            return ConfiguredKeys(
                secret,
                {_digest(position, key): key.tenant for position, key in enumerate(auth.keys)},
            )
        case _:
            assert_never(auth.mode)


def _digest(position: int, key: AuthKey) -> bytes:
    if key.key_sha256 is not None:
        return bytes.fromhex(key.key_sha256)
    name = key.key_env or ""
    return hashlib.sha256(
        secret_from(name, setting=f"auth.keys.{position}.key_env").encode()
    ).digest()
