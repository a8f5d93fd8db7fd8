"""What a selector names, in bytes of a known length.

Texts stand as digests of eight bytes: two that share one (1 in 2**64) would be invalidated
together.
"""

from hashlib import blake2b

from stepwell.core.entry import Selector

DIGEST_BYTES = 8


def digest(text: str) -> bytes:
    """Return what stands for ``text``."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()


Named = tuple[bytes | None, bytes | None, bytes | None, bytes | None, bytes | None]
"""What a selector names: key, namespace, model, request class, tag; ``None`` where it does not."""


def named_by(selector: Selector) -> Named:
    """Return what ``selector`` names."""
    return (
        selector.key,
        selector.namespace,
        None if selector.model is None else digest(selector.model),
        None if selector.request_class is None else digest(selector.request_class),
        None if selector.tag is None else digest(selector.tag),
    )
