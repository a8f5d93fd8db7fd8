"""The routes of a llama.cpp server that are for who runs it: slots, and how busy it is."""

import http.client
from dataclasses import dataclass
from typing import TypeVar

import msgspec

_DECODES = b"llamacpp:n_decode_total"
_BUSY = b"llamacpp:requests_processing"
_DEFERRED = b"llamacpp:requests_deferred"

_NEVER_FIRST = 2
"""Token that ends a turn."""

_Told = TypeVar("_Told")


class RouteFailed(Exception):
    """The server refuses, says what makes no sense, or does not answer in time."""


class Wrote(msgspec.Struct, frozen=True):
    """A slot was saved."""

    n_saved: int
    """Tokens."""
    n_written: int
    """Bytes, as far as the server knows."""


class _Read(msgspec.Struct, frozen=True):
    n_restored: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What a server has done and does."""

    decodes: int
    """Since its start; grows while it works."""
    is_busy: bool


class LlamaRoutes:
    """Asks one server on a loopback port, a connection each time. Blocks; for any thread.

    All methods raise `RouteFailed`. A server in the middle of a long prompt answers when the
    batch it computes is done, and saves or restores a slot when that is free: within
    ``timeout_seconds``, or it has failed (and may do so later).
    """

    def __init__(self, port: int, api_key: str) -> None:
        """Ask the server on ``port``."""
        self._port = port
        self._fields = {"authorization": f"Bearer {api_key}", "content-type": "application/json"}

    def save(self, slot: int, filename: str, timeout_seconds: float) -> Wrote:
        """Have the server write what ``slot`` holds to ``filename`` in its folder for that."""
        return self._act(slot, "save", filename, timeout_seconds, Wrote)

    def restore(self, slot: int, filename: str, timeout_seconds: float) -> int:
        """Have the server read what ``slot`` held from ``filename``; return how many tokens."""
        return self._act(slot, "restore", filename, timeout_seconds, _Read).n_restored

    def let_go(self, slot: int, timeout_seconds: float) -> None:
        """Have the server move what ``slot`` holds to its prompt cache, where any slot finds it.

        By a prompt of one token that no conversation begins with.
        """
        body = msgspec.json.encode({"prompt": [_NEVER_FIRST], "n_predict": 0, "id_slot": slot})
        self._ask("POST", "/completion", body, timeout_seconds)

    def activity(self, timeout_seconds: float) -> Activity:
        """Return what the server has done and does."""
        page = self._ask("GET", "/metrics", b"", timeout_seconds)
        values = dict(
            line.rsplit(b" ", 1) for line in page.splitlines() if line.startswith(b"llamacpp:")
        )
        try:
            return Activity(
                decodes=int(float(values[_DECODES])),
                is_busy=float(values[_BUSY]) + float(values[_DEFERRED]) > 0,
            )
        except (KeyError, ValueError) as error:
            raise RouteFailed("its metrics do not say how busy it is") from error

    def _act(
        self, slot: int, action: str, filename: str, timeout_seconds: float, told: type[_Told]
    ) -> _Told:
        body = msgspec.json.encode({"filename": filename})
        reply = self._ask("POST", f"/slots/{slot}?action={action}", body, timeout_seconds)
        try:
            return msgspec.json.decode(reply, type=told)
        except msgspec.MsgspecError as error:
            raise RouteFailed(f"{action} of a slot: {error}") from error

    def _ask(self, method: str, path: str, body: bytes, timeout_seconds: float) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_seconds)
        try:
            connection.request(method, path, body, self._fields)
            reply = connection.getresponse()
            read = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise RouteFailed(f"{path}: {error}") from error
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            raise RouteFailed(f"{path}: status {reply.status}")
        return read
