"""Stepwell: a multi-level cache for LLM inference.

As a gateway: ``stepwell serve``. In a program: `Cache`, or `wrap` around an OpenAI client.
"""

import importlib
from typing import TYPE_CHECKING

from stepwell.core.errors import (
    ConfigError,
    CorruptEntry,
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
    from stepwell.library.answer import AnswerStream, CachedAnswer
    from stepwell.library.cache import Cache
    from stepwell.library.wrap import wrap

__all__ = [
    "AnswerStream",
    "Cache",
    "CachedAnswer",
    "ConfigError",
    "CorruptEntry",
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
    "AnswerStream": "stepwell.library.answer",
    "Cache": "stepwell.library.cache",
    "CachedAnswer": "stepwell.library.answer",
    "wrap": "stepwell.library.wrap",
}
"""What is imported when it is first used, so that importing the package stays quick (PEP 562)."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
