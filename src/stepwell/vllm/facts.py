"""What vLLM's configuration says that a KV block depends on. Needs no vLLM to be imported."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.core.errors import ConfigError
from stepwell.core.kv import KvScope

if TYPE_CHECKING:
    from vllm.config import ModelConfig, VllmConfig
    from vllm.config.parallel import ParallelConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheSpec

_ATTENTION = frozenset({"FullAttentionSpec", "MLAAttentionSpec"})
"""Names of vLLM's classes whose pages hold the keys and values of all tokens, and of nothing
else."""

_NOT_OF_THE_MODEL = frozenset({"_name_or_path", "transformers_version"})


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides how vLLM lays out a page on this machine."""

    vllm_version: str
    device: str
    """Kind of device, and of a CPU what its attention kernels choose by."""


def check_supported(vllm_config: "VllmConfig", kv_cache_config: "KVCacheConfig") -> None:
    """Make sure that blocks can be kept, and that one that cannot be loaded costs time only.

    Raises:
        ConfigError: Says what to change.
    """
    if vllm_config.kv_transfer_config.kv_load_failure_policy != "recompute":
        raise ConfigError(
            'StepwellConnector needs "kv_load_failure_policy": "recompute" in --kv-transfer-config:'
            " else a damaged file would fail a request"
        )
    if vllm_config.speculative_config is not None:
        raise ConfigError(
            "StepwellConnector does not work with speculative decoding, whose draft model has"
            " pages of its own"
        )
    if _context_shards(vllm_config.parallel_config) > 1:
        raise ConfigError(
            "StepwellConnector does not work with context parallelism, where a page holds tokens"
            " of many blocks"
        )
    if not _is_plain_attention(kv_cache_config):
        raise ConfigError(
            "StepwellConnector works with models whose layers all have full attention, in one KV"
            f" cache group; this one has {_groups(kv_cache_config)}"
        )


def scope_of(
    vllm_config: "VllmConfig", kv_cache_config: "KVCacheConfig", machine: Machine, weights: str
) -> KvScope:
    """Return all that a block depends on, besides tokens, adapter and salt.

    Args:
        vllm_config: vLLM's own.
        kv_cache_config: Likewise.
        machine: What runs it.
        weights: Names the model's weights.
    """
    model, cache = vllm_config.model_config, vllm_config.cache_config
    layout = {
        "vllm": machine.vllm_version,
        "device": machine.device,
        "weights": str(model.dtype),
        "quantization": str(model.quantization),
        "kv": str(cache.cache_dtype),
        "page": cache.block_size,
        "pages": str(kv_cache_config.kv_cache_layout),
        "attention": str(vllm_config.attention_config.backend),
        "shards": vllm_config.parallel_config.world_size,
        "stages": vllm_config.parallel_config.pipeline_parallel_size,
    }
    return KvScope(
        model=weights,
        # Prompts come as token ids: whoever made them, the same ids have the same keys and values.
        tokenizer="",
        dtype=_canonical(layout),
        rope=_canonical(_rope(model)),
    )


def _rope(model: "ModelConfig") -> dict[str, Any]:
    """Return the model's whole configuration, as changed by ``--hf-overrides``."""
    config = {
        name: value
        for name, value in model.hf_config.to_dict().items()
        if name not in _NOT_OF_THE_MODEL
    }
    # There, vLLM chooses among two sets of factors by the longest prompt it takes.
    return config | ({"limit": model.max_model_len} if "longrope" in _canonical(config) else {})


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _context_shards(parallel: "ParallelConfig") -> int:
    shards = parallel.decode_context_parallel_size * parallel.prefill_context_parallel_size
    return int(shards)


def _is_plain_attention(kv_cache_config: "KVCacheConfig") -> bool:
    groups = kv_cache_config.kv_cache_groups
    return len(groups) == 1 and _is_plain(groups[0].kv_cache_spec)


def _is_plain(spec: "KVCacheSpec") -> bool:
    return type(spec).__name__ in _ATTENTION and not spec.non_causal


def _groups(kv_cache_config: "KVCacheConfig") -> str:
    names = [type(group.kv_cache_spec).__name__ for group in kv_cache_config.kv_cache_groups]
    return ", ".join(names) or "none"
