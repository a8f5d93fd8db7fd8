"""Salts that keep tenants' prefixes apart inside a model server.

A model server that shares prefixes between all requests lets a tenant find out by timing what
another one has asked (CVE-2025-46570). vLLM mixes a request's ``cache_salt`` into its first block,
and through it into all others, so that only requests with the same salt share. Who knows a salt
may share with its owner: it is made here, from a secret, and never taken from a client.
"""

import hashlib
import hmac
from base64 import urlsafe_b64encode

from stepwell.core.names import Namespace
from stepwell.keys.parts import join_parts

SALT_BYTES = 24
"""192 bits, 32 characters without padding: beyond guessing, and within vLLM's limit of 128."""


def cache_salt(secret: bytes, upstream: str, tenant: Namespace | None) -> str:
    """Return the salt of a tenant's requests at one model server, for all its replicas.

    HMAC-SHA-256 (RFC 2104) over tagged parts, so that no two meanings give the same salt, and that
    nobody who sees a salt, in a log or a server's events, learns anything about another. Costs
    some 3 us.

    Args:
        secret: The one that namespaces are made with; the same for all gateways that are to share.
        upstream: The model server as the settings name it. A salt that leaks there opens nothing
            elsewhere.
        tenant: Whose request it is; ``None``: nobody's. Those share with each other, so nothing
            that a tenant must keep to itself may go with this salt, not even behind a public
            beginning: a salt holds for the whole prompt.

    Returns:
        32 characters that are safe in URLs and file names.
    """
    kind = b"public" if tenant is None else b"tenant"
    message = join_parts((b"stepwell/cache-salt", upstream.encode(), kind, tenant or b""))
    code = hmac.digest(secret, message, hashlib.sha256)[:SALT_BYTES]
    return urlsafe_b64encode(code).decode("ascii")
