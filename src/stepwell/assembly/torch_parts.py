"""The torch engine and its KV cache, put together in this process. Needs the ``torch`` extra."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from stepwell.assembly.torch_cache import LentCache, make_cache
from stepwell.assembly.torch_metrics import exposition
from stepwell.core.clock import SystemClock
from stepwell.core.kv import TOKEN_BYTES, KvScope, Tokens
from stepwell.engines.torch.answerer import Answerer
from stepwell.engines.torch.app import App
from stepwell.engines.torch.engine import Engine
from stepwell.engines.torch.loading import Loaded, load
from stepwell.engines.torch.model import use_threads
from stepwell.engines.torch.process import TorchSettings
from stepwell.engines.torch.prompts import Prompter
from stepwell.prefix.cache import PrefixCache


@dataclass(frozen=True, slots=True)
class TorchParts:
    """What serves one model."""

    answerer: Answerer
    cache: PrefixCache[torch.Tensor]
    app: App


def load_for(settings: TorchSettings) -> Loaded:
    """Load the model of the settings; this process then computes on as many threads as they say.

    Blocks for seconds.

    Raises:
        ConfigError: It is not a model this engine can run.
        OSError: It cannot be read, or the folder of converted models cannot be written.
    """
    use_threads(settings.threads)
    return load(
        Path(settings.weights),
        name=settings.model,
        dtype=settings.dtype,
        cache=Path(settings.cache),
    )


def put_together(settings: TorchSettings, loaded: Loaded) -> TorchParts:
    """Return what serves a model that is loaded. Its cache is empty but for what is on disk.

    Raises:
        StoreUnavailable: The folder for blocks cannot be made or written to.
    """
    cache, disk = make_cache(settings, loaded.model.facts.shape, SystemClock())
    engine = Engine(loaded.model, LentCache(cache, disk), slots=settings.slots)
    facts = loaded.model.facts
    prompter = Prompter(loaded.tokenizer, facts.vocabulary, facts.context_tokens)
    answerer = Answerer(engine, prompter, loaded.tokenizer)
    app = App(
        answerer,
        facts,
        api_key=settings.api_key,
        metrics=exposition(cache.figures, engine.counts, lambda: engine.active),
        pin=partial(_pin, cache),
        take_trouble=_no_trouble if disk is None else disk.take_last_error,
    )
    return TorchParts(answerer, cache, app)


def _no_trouble() -> str:
    return ""


def _pin(
    cache: PrefixCache[torch.Tensor], scope: KvScope, tokens: Tokens, ttl_seconds: float
) -> None:
    """Pin the whole blocks of a prompt; for no time, or without one, nothing is pinned."""
    if ttl_seconds and len(tokens) >= cache.block_tokens * TOKEN_BYTES:
        cache.pin(scope, tokens, ttl_seconds=ttl_seconds)
