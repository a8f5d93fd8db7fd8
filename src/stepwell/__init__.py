"""Stepwell: a multi-level cache for LLM inference.

As a gateway: ``stepwell serve``. In a program: `Cache`, or `wrap` around an OpenAI client;
`EmbeddingCache` for vectors of texts.
"""

import importlib
from typing import TYPE_CHECKING

from stepwell.core.errors import (
    ConfigError,
    CorruptEntry,
    EmbeddingError,
    RequestError,
    StepwellError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)

if TYPE_CHECKING:
    from stepwell.client.answer import AnswerStream, CachedAnswer
    from stepwell.client.cache import Cache
    from stepwell.client.documents import Documents
    from stepwell.client.embedding import EmbeddingCache
    from stepwell.client.wrap import wrap

__all__ = [
    "AnswerStream",
    "Cache",
    "CachedAnswer",
    "ConfigError",
    "CorruptEntry",
    "Documents",
    "EmbeddingCache",
    "EmbeddingError",
    "RequestError",
    "StepwellError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "UpstreamBroken",
    "UpstreamError",
    "UpstreamTimeout",
    "UpstreamUnreachable",
    "wrap",
]

_LATER = {
    "AnswerStream": "stepwell.client.answer",
    "Cache": "stepwell.client.cache",
    "CachedAnswer": "stepwell.client.answer",
    "Documents": "stepwell.client.documents",
    "EmbeddingCache": "stepwell.client.embedding",
    "wrap": "stepwell.client.wrap",
}
"""What is imported when it is first used, so that importing the package stays quick (PEP 562)."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
