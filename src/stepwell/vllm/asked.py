"""A request as far as its prefix is concerned, and in which scope its tokens are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from stepwell.core.kv import Adapter, KvScope
from stepwell.core.names import Namespace

_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter as vLLM names it."""

    name: str
    number: int
    """vLLM's own; another one each time the adapter is loaded."""
    path: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose KV depends on nothing but its tokens, model, adapter and salt."""

    request_id: str
    token_ids: Sequence[int]
    """All that are known so far."""
    salt: str | None
    """``cache_salt``: keeps apart what must not be shared, such as tenants."""
    lora: Lora | None


class Scopes:
    """Finds the scope of a request. One thread: reads an adapter's files when it is first seen."""

    def __init__(self, base: KvScope, adapter_version: Callable[[Path], str | None]) -> None:
        """Know no adapter yet.

        Args:
            base: Of requests without adapter and salt.
            adapter_version: Returns what names the weights in an adapter's folder; ``None`` if
                they cannot be read.
        """
        self._base = base
        self._adapter_version = adapter_version
        self._versions: dict[Lora, str | None] = {}

    def digest_of(self, asked: Asked) -> bytes | None:
        """Return the digest of a request's scope; ``None`` if its adapter cannot be named."""
        scope = self._base
        if asked.lora is not None:
            if asked.lora not in self._versions:
                self._versions[asked.lora] = self._adapter_version(Path(asked.lora.path))
            version = self._versions[asked.lora]
            if version is None:
                return None
            scope = replace(scope, adapter=Adapter(asked.lora.name, version))
        if asked.salt is not None:
            scope = replace(scope, tenant=_tenant_of(asked.salt))
        return scope.digest()


def _tenant_of(salt: str) -> Namespace:
    written = salt.encode(errors="surrogatepass")
    return Namespace(blake2b(written, digest_size=_SALT_BYTES, person=b"stepwell salt").digest())
