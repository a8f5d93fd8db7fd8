"""How a server is known to be the right one, and how it knows us."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from stepwell.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Tls:
    """Options of encrypted connections. Certificates are always checked."""

    ca_file: Path | None = None
    """PEM file of the authorities to trust, instead of the system's."""
    cert_file: Path | None = None
    """PEM file of our own certificate, for servers that want one."""
    key_file: Path | None = None
    """PEM file of its key, not encrypted; ``None`` if the certificate's file holds it."""
    check_hostname: bool = True
    """Whether the certificate must be for the host that is dialled."""


def make_context(tls: Tls) -> ssl.SSLContext:
    """Read the files. Blocks for some milliseconds.

    Raises:
        ConfigError: A file cannot be used.
    """
    if tls.key_file is not None and tls.cert_file is None:
        raise ConfigError("stores.redis.key_file goes with stores.redis.cert_file")
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except OSError as error:  # of TLS too
        raise _cannot_use("ca_file", tls.ca_file, error) from error
    context.check_hostname = tls.check_hostname
    if tls.cert_file is not None:
        try:
            # With a password, though a wrong one: without any, OpenSSL asks at the terminal.
            context.load_cert_chain(tls.cert_file, tls.key_file, password="")
        except OSError as error:
            raise _cannot_use("cert_file", tls.cert_file, error, tls.key_file) from error
    return context


def _cannot_use(
    setting: str, path: Path | None, error: OSError, key_file: Path | None = None
) -> ConfigError:
    beside = f" with stores.redis.key_file {str(key_file)!r}" if key_file else ""
    return ConfigError(
        f"stores.redis.{setting} is {str(path)!r}{beside} and cannot be used"
        f" ({error.strerror or error}); it must be a readable PEM file"
    )
