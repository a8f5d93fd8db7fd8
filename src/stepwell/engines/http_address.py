"""Where a model server is: its base URL, taken apart and checked."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from stepwell.core.errors import ConfigError

_PORTS = {"http": 80, "https": 443}
_NO_SPACE = re.compile(r"[^\x00- \x7f]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL's parts."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    """Name or IP address in ASCII, an IPv6 address without its brackets."""
    port: int
    authority: str
    """Host and port as they stand in a URL and in ``host``; the scheme's own port is left out."""
    path: str
    """Without a trailing slash; operations are appended to it."""


def parse_base_url(table: str, base_url: str) -> Address:
    """Take the ``base_url`` of a server apart.

    Args:
        table: Of the settings, where it stands: ``upstreams.openai``.
        base_url: What stands there.

    Raises:
        ConfigError: It is not the HTTP address of a server.
    """
    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port
    except ValueError:  # an impossible port or host; encoding errors are of this kind too
        parts, host, port = urlsplit(""), "", None
    is_plain = _NO_SPACE.fullmatch(base_url) and not set("?#") & set(base_url)
    if (
        parts.scheme not in _PORTS
        or not host
        or port == 0
        or "@" in parts.netloc
        or not parts.path.isascii()
        or not is_plain
    ):
        raise ConfigError(
            f"[{table}] base_url {base_url!r} must be http:// or https://, a host, and "
            "a path such as /v1, percent-encoded; no credentials, no query"
        )
    default_port = _PORTS[parts.scheme]
    authority = f"[{host}]" if ":" in host else host
    if port not in {None, default_port}:
        authority = f"{authority}:{port}"
    return Address(parts.scheme, host, port or default_port, authority, parts.path.rstrip("/"))
