"""For LangChain: `StepwellCache`, for answers, and `StepwellEmbeddings`, for vectors.

Needs the extra ``langchain``.
"""

from stepwell.adapters.langchain_cache import StepwellCache
from stepwell.adapters.langchain_embeddings import StepwellEmbeddings

__all__ = ["StepwellCache", "StepwellEmbeddings"]
