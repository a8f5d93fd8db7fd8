"""A running gateway's admin routes, for commands that need what only it knows."""

import argparse
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from stepwell.assembly.environment import secret_from
from stepwell.assembly.settings import Server
from stepwell.core.errors import ConfigError
from stepwell.study.terminal import plain

TIMEOUT_SECONDS = 10.0

_ERROR = 400
_MAX_MESSAGE = 1_000
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  (compared, not bound)


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--gateway`` and ``--admin-token-env``."""
    parser.add_argument(
        "--gateway", metavar="URL", help="where the gateway is; default: as the settings say"
    )
    parser.add_argument(
        "--admin-token-env",
        metavar="NAME",
        help="variable with its admin token; default: server.admin_token_env of the settings",
    )


def client_for(
    options: argparse.Namespace, server: Server, *, reply_seconds: float = TIMEOUT_SECONDS
) -> "AdminClient":
    """Return a client for the gateway that the options mean, else for that of the settings.

    Args:
        options: Those of `add_gateway_options`.
        server: The settings' table.
        reply_seconds: How long a reply may take.

    Raises:
        ConfigError: The address or the token cannot be used.
    """
    host = "127.0.0.1" if server.host in _ANY_ADDRESS else server.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
    name, setting = options.admin_token_env, "--admin-token-env"
    if name is None:
        name, setting = server.admin_token_env, "server.admin_token_env"
    token = None if name is None else secret_from(name, setting=setting)
    return AdminClient(options.gateway or url, token, reply_seconds=reply_seconds)


class AdminClient:
    """Calls admin routes, one after the other, each over a connection of its own. Blocking."""

    def __init__(
        self, url: str, token: str | None, *, reply_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Call the gateway at ``url``; sends nothing yet.

        Args:
            url: Such as ``http://127.0.0.1:8080``; a path, as behind a proxy, stays in front.
            token: What opens its admin routes, if it has one.
            reply_seconds: How long a reply may take; a connection has `TIMEOUT_SECONDS`.

        Raises:
            ConfigError: That is no HTTP address.
        """
        parts = urlsplit(url)
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host = ""
        if parts.scheme not in {"http", "https"} or not self._host:
            raise ConfigError(f"--gateway is {url!r}; allowed: such as http://127.0.0.1:8080.")
        self._url = url
        self._reply_seconds = reply_seconds
        self._path = parts.path.rstrip("/")
        self._connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._fields = {} if token is None else {"authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:  # noqa: ANN401  (any JSON)
        """Return what a route answers.

        Raises:
            ConfigError: The gateway cannot be reached, or refuses.
        """
        return self._call("GET", path, b"", self._fields)

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401  (any JSON)
        """Send ``body`` as JSON, and return what the route answers. Raises as `get`."""
        fields = {**self._fields, "content-type": "application/json"}
        return self._call("POST", path, orjson.dumps(body), fields)

    def _call(self, method: str, path: str, body: bytes, fields: dict[str, str]) -> Any:  # noqa: ANN401  (any JSON)
        connection = self._connect(self._host, self._port, timeout=TIMEOUT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(self._reply_seconds)
            connection.request(method, self._path + path, body or None, fields)
            reply = connection.getresponse()
            status, raw = reply.status, reply.read()
        except (OSError, HTTPException, ValueError) as error:
            raise ConfigError(
                f"--gateway: nothing answers at {self._url} ({str(error) or type(error).__name__})."
                " Does `stepwell serve` run there?"
            ) from error
        finally:
            connection.close()
        try:
            said = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise ConfigError(
                f"--gateway: {self._url} answers {status} and no JSON; is a gateway there?"
            ) from None
        if status >= _ERROR:
            raise ConfigError(f"--gateway: {self._url} answers {status}: {_message(said)}")
        return said


def _message(said: object) -> str:
    """Return the sentence in an error of OpenAI's form."""
    error = said.get("error") if isinstance(said, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return plain(message, _MAX_MESSAGE) if isinstance(message, str) else "no more is said"
