"""Prompts made of numbered blocks, and scopes to put them in."""

from array import array

from stepwell.core.kv import Adapter, KvScope, Tokens
from stepwell.core.names import Namespace

BLOCK_TOKENS = 16


def blocks(*numbers: int, size: int = BLOCK_TOKENS) -> Tokens:
    """Return one block of ``size`` tokens for each number, all its tokens being that number."""
    return Tokens(array("i", [number for number in numbers for _ in range(size)]).tobytes())


def scope(tenant: str | None = None, adapter: str | None = None) -> KvScope:
    """Return a scope of a tenant, or a public one."""
    named = None if tenant is None else Namespace(tenant.encode().ljust(16, b"."))
    version = None if adapter is None else Adapter(adapter, "1")
    return KvScope("model", "tokenizer", "float32", "rope", version, named)


def salt_of(of: KvScope) -> str | None:
    """Return a salt that is easy to read in a failed test."""
    return None if of.tenant is None else of.tenant.decode().rstrip(".")
