"""The tenant boundary, first part of every key."""

import hashlib
import hmac
from dataclasses import dataclass, field

from stepwell.core.names import Namespace
from stepwell.keys.parts import join_parts

NAMESPACE_BYTES = 16
SECRET_BYTES = 16
"""The least a secret may have."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose request it is."""

    identity: str
    """What tells tenants apart, marked with its kind (``token:sk-...``, ``name:team-a``)."""
    secret: bytes = field(repr=False)
    own_namespace: Namespace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_namespace", namespace_of(self.secret, self.identity))

    def namespace(self, sub_namespace: str = "") -> Namespace:
        """Return the tenant's namespace, or a part of it. A part costs some 5 us."""
        if not sub_namespace:
            return self.own_namespace
        return namespace_of(self.secret, self.identity, sub_namespace)


def namespace_of(secret: bytes, tenant: str, sub_namespace: str = "") -> Namespace:
    """Return the namespace of ``tenant``, or of a part of it.

    It is keyed (HMAC-SHA-256, RFC 2104) so that nobody who sees a namespace, in a log or in a
    stored record, can test a guessed API key against it.

    Args:
        secret: At least 16 bytes, the same for all processes that share a store.
        tenant: What tells tenants apart: the bearer token, or a configured name. The caller
            marks which of the two it is, so that a token never equals a name.
        sub_namespace: Narrows the tenant's own space. Different for every non-empty value.
    """
    message = join_parts((b"stepwell/namespace", tenant.encode(), sub_namespace.encode()))
    return Namespace(hmac.digest(secret, message, hashlib.sha256)[:NAMESPACE_BYTES])
