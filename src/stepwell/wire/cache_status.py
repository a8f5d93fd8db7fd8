"""The ``Cache-Status`` response field (RFC 9211), in structured fields' syntax (RFC 8941)."""

import re
from enum import StrEnum

_CACHE = "stepwell"

_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_SPECIAL = re.compile(r'(["\\])')


class Forward(StrEnum):
    """Why a request went on to the model server (RFC 9211, 2.2)."""

    MISS = "miss"
    """Nothing that could answer it is stored."""
    PARTIAL = "partial"
    """A part of what is asked for is stored."""
    STALE = "stale"
    """What is stored is not fresh any more."""
    REQUEST = "request"
    """The caller's directives did not allow what is stored."""
    BYPASS = "bypass"
    """The settings keep the cache out of it."""


def hit_status(
    ttl_seconds: int | None, *, detail: str | None = None, key: str | None = None
) -> str:
    """Return the field for an answer from the cache.

    Args:
        ttl_seconds: How long the answer stays fresh; negative if it is stale; ``None``: it has
            no age.
        detail: What else to say, such as the layer.
        key: Representation of the cache key.
    """
    parameters = ["hit"] if ttl_seconds is None else ["hit", f"ttl={ttl_seconds}"]
    return _field(parameters, detail=detail, key=key)


def forward_status(
    reason: Forward,
    *,
    status: int | None = None,
    stored: bool = False,
    collapsed: bool = False,
    detail: str | None = None,
    key: str | None = None,
) -> str:
    """Return the field for a request that went on to the model server.

    Args:
        reason: Why it did.
        status: HTTP status of the model server's reply, if it is worth saying.
        stored: The answer was stored.
        collapsed: It was answered by another request's call.
        detail: What else to say, such as why nothing was stored.
        key: Representation of the cache key.
    """
    parameters = [f"fwd={reason.value}"]
    if status is not None:
        parameters.append(f"fwd-status={status}")
    if stored:
        parameters.append("stored")
    if collapsed:
        parameters.append("collapsed")
    return _field(parameters, detail=detail, key=key)


def _field(parameters: list[str], *, detail: str | None, key: str | None) -> str:
    if key is not None:
        parameters.append(f"key={_string(key)}")
    if detail is not None:
        parameters.append(f"detail={detail if _TOKEN.fullmatch(detail) else _string(detail)}")
    return "; ".join([_CACHE, *parameters])


def _string(text: str) -> str:
    """Return ``text`` as an sf-string, which is ASCII: any other character becomes ``?``."""
    escaped = _SPECIAL.sub(r"\\\1", _UNPRINTABLE.sub("?", text))
    return f'"{escaped}"'
