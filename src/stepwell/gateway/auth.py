"""Who asks. Before anything is looked up."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Protocol

from stepwell.core.errors import RequestError
from stepwell.keys.namespace import Tenant

_UNAUTHORIZED = 401

MAX_SEEN = 10_000
"""Tenants whose namespace is remembered, the one seen first forgotten first."""


class Authenticator(Protocol):
    """Tells tenants apart."""

    def tenant(self, headers: Mapping[str, str]) -> Tenant | None:
        """Return whose request it is; ``None`` if nobody says, and then nothing is cached.

        Raises:
            RequestError: 401, the key is not one of ours.
        """
        ...


class PassThrough:
    """Every bearer token is a tenant of its own; the model server checks it.

    An entry is found only with the token it was made with, so a caller without a valid token
    never had an answer to find.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._seen: dict[str, Tenant] = {}

    def tenant(self, headers: Mapping[str, str]) -> Tenant | None:
        """Return the tenant of the request's token."""
        token = bearer_token(headers)
        if not token:
            return None
        tenant = self._seen.get(token)
        if tenant is None:
            tenant = Tenant(f"token:{token}", self._secret)
            if len(self._seen) >= MAX_SEEN:
                del self._seen[next(iter(self._seen))]
            self._seen[token] = tenant
        return tenant


class ConfiguredKeys:
    """Only known keys are let in; several may belong to one tenant."""

    def __init__(self, secret: bytes, tenants_by_digest: Mapping[bytes, str]) -> None:
        """Keep the keys.

        Args:
            secret: Keys the namespaces.
            tenants_by_digest: SHA-256 of each key to its tenant's name.
        """
        self._tenants = {
            digest: Tenant(f"name:{name}", secret) for digest, name in tenants_by_digest.items()
        }

    def tenant(self, headers: Mapping[str, str]) -> Tenant | None:
        """Return the tenant whose key it is.

        Raises:
            RequestError: 401.
        """
        digest = hashlib.sha256(bearer_token(headers).encode()).digest()
        # A look-up by digest takes the same time whatever the key has in common with a real one.
        tenant = self._tenants.get(digest)
        if tenant is None:
            raise RequestError(
                "Incorrect API key provided.", status=_UNAUTHORIZED, code="invalid_api_key"
            )
        return tenant


class Shared:
    """Everybody is one tenant: for a gateway that only one product can reach."""

    def __init__(self, secret: bytes) -> None:
        self._tenant = Tenant("shared", secret)

    def tenant(self, headers: Mapping[str, str]) -> Tenant | None:  # noqa: ARG002  (the protocol's)
        """Return the one tenant."""
        return self._tenant


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token of ``Authorization: Bearer`` (RFC 6750, 2.1), or an empty string."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_token(headers: Mapping[str, str], expected: str) -> bool:
    """Return whether the request's token is ``expected``, in a time that tells nothing."""
    return hmac.compare_digest(bearer_token(headers).encode(), expected.encode())
