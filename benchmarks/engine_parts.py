"""What `prefix_engine.py` measures. Needs torch."""

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from stepwell.assembly.torch_cache import LentCache, make_cache
from stepwell.assembly.torch_parts import TorchParts
from stepwell.core.clock import SystemClock
from stepwell.core.kv import KvCache
from stepwell.core.names import Namespace
from stepwell.engines.torch.engine import Began
from stepwell.engines.torch.int8 import pack_int8, unpack_int8
from stepwell.engines.torch.loading import Loaded
from stepwell.engines.torch.process import TorchSettings
from stepwell.engines.torch.prompts import tokens_of
from stepwell.engines.torch.sampling import Sampling
from stepwell.engines.torch.working_kv import WorkingKv

SUFFIX_TOKENS = 48
ANSWER_TOKENS = 32
TEXTS = ("LICENSE", "README.md", "docs/tutorial.md", "design/0001-house.md")
KNOWN = Namespace(b"known".ljust(16))

Row = dict[str, object]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    prefixes: tuple[int, ...]
    rounds: int
    prompts: int
    scored_tokens: int


FULL = Sizes(prefixes=(500, 1000, 2000), rounds=5, prompts=200, scored_tokens=500)
SMOKE = Sizes(prefixes=(200,), rounds=1, prompts=3, scored_tokens=8)


def random_ids(count: int, seed: int) -> list[int]:
    """Return tokens of no meaning, none of them special."""
    source = random.Random(seed)
    return [source.randrange(20, 49_000) for _ in range(count)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return what ``work`` takes of this process's CPU time."""
    started = time.process_time()
    work()
    return time.process_time() - started


async def asked(
    parts: TorchParts, ids: Sequence[int], tenant: Namespace, tokens: int
) -> tuple[float, float, list[int], int]:
    """Return CPU seconds to the first token and to the last, the answer, and what was cached."""

    engine = parts.answerer.engine
    prompt = parts.answerer.prompter.tokens(ids, tenant)
    sampling = Sampling(temperature=0, max_tokens=tokens)
    started = time.process_time()
    first, cached, answer = 0.0, 0, []
    async with aclosing(engine.answer(prompt, sampling)) as events:
        async for event in events:
            if isinstance(event, Began):
                first, cached = time.process_time() - started, event.cached_tokens
            else:
                answer.append(event.token)
    total = time.process_time() - started
    while engine.active:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.001)
    return first, total, answer, cached


async def speed(parts: TorchParts, sizes: Sizes) -> list[Row]:
    """Return a row for each length of a kept prefix."""
    rows: list[Row] = []
    tenants = (Namespace(number.to_bytes(16, "big")) for number in itertools.count(1))
    for tokens in sizes.prefixes:
        prefix = random_ids(tokens, seed=tokens)
        await asked(parts, [*prefix, *random_ids(SUFFIX_TOKENS, 1)], KNOWN, 1)
        cold, warm, same = [], [], 0
        for number in range(sizes.rounds):
            ids = [*prefix, *random_ids(SUFFIX_TOKENS, 100 + number)]
            cold.append(await asked(parts, ids, next(tenants), ANSWER_TOKENS))
            warm.append(await asked(parts, ids, KNOWN, ANSWER_TOKENS))
            same += cold[-1][2] == warm[-1][2]
        first = [statistics.median(one[0] for one in runs) for runs in (cold, warm)]
        total = [statistics.median(one[1] for one in runs) for runs in (cold, warm)]
        rows.append(
            {
                "P": tokens,
                "cached": warm[-1][3],
                "cold ms": first[0] * 1e3,
                "warm ms": first[1] * 1e3,
                "x": first[0] / first[1],
                "cold total ms": total[0] * 1e3,
                "warm total ms": total[1] * 1e3,
                "saved": 1 - total[1] / total[0],
                "same answers": f"{same}/{sizes.rounds}",
            }
        )
    return rows


def generated(
    loaded: Loaded, ids: Sequence[int], blocks: Sequence[torch.Tensor], count: int
) -> tuple[list[int], list[torch.Tensor], WorkingKv]:
    """Return greedy tokens behind a prompt, the logits of each, and the keys and values."""
    model = loaded.model
    working = model.working(len(ids) + count)
    working.restore(blocks)
    logits = None
    while logits is None:
        logits = model.prefill(working, ids)
    told = [logits]
    tokens = [int(logits.argmax())]
    while len(tokens) < count:
        told.append(model.step(working, tokens[-1]))
        tokens.append(int(told[-1].argmax()))
    return tokens, told, working


def identity(loaded: Loaded, settings: TorchSettings, sizes: Sizes) -> list[Row]:
    """Return how often a run from the cache says what a run without it says."""

    source = random.Random(5)
    facts = loaded.model.facts
    systems = [random_ids(source.randrange(80, 320), seed) for seed in range(12)]
    small = replace(settings, memory_bytes=2_000 * facts.shape.token_bytes)
    scope, count = facts.scope(None), 3
    same, cached, bits, worst, lost = 0, 0, 0, 0.0, 0
    for half in range(2):  # a restart in between: what is left is what is on disk
        cache, disk = make_cache(small, facts.shape, SystemClock())
        kept = LentCache(cache, disk)
        for number in range(half * sizes.prompts // 2, (half + 1) * sizes.prompts // 2):
            ids = [*source.choice(systems), *random_ids(source.randrange(1, 80), 1000 + number)]
            tokens = tokens_of(ids)
            with kept.lease(scope, tokens) as lease:
                warm, warm_logits, working = generated(loaded, ids, lease.load(), count)
                cached += lease.matched_tokens
                kept.keep(
                    scope,
                    tokens,
                    partial(_blocks, working, settings.block_tokens),
                    prompt_tokens=len(ids),
                    seconds_per_token=3e-3,
                )
            cold, cold_logits, _ = generated(loaded, ids, (), count)
            apart = max(
                float((one - other).abs().max())
                for one, other in zip(cold_logits, warm_logits, strict=True)
            )
            same += cold == warm
            bits += apart == 0
            worst = max(worst, apart)
        lost += sum(shelf.evicted_blocks.get("capacity", 0) for shelf in cache.figures().shelves)
        cache.close()
    return [
        {
            "prompts": sizes.prompts,
            "cached tokens": cached,
            "evicted blocks": lost,
            "same tokens": same,
            "same bits": bits,
            "max |dlogit|": worst,
        }
    ]


def _blocks(working: WorkingKv, block_tokens: int, first: int, end: int) -> list[torch.Tensor]:
    return working.blocks(first, end, block_tokens)


def cost(loaded: Loaded, settings: TorchSettings, sizes: Sizes) -> list[Row]:
    """Return what the cache itself takes, as a share of computing the tokens."""
    tokens = max(sizes.prefixes)
    rounds = [_cost_once(loaded, settings, tokens, seed) for seed in range(sizes.rounds + 1)]
    rounds = rounds[1:]  # the first one takes its memory from the system
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return [
        {
            "work": name,
            "tokens": tokens,
            "ms": seconds * 1e3,
            "% of computing": seconds / medians["compute"] * 100,
        }
        for name, seconds in medians.items()
    ]


def _cost_once(loaded: Loaded, settings: TorchSettings, tokens: int, seed: int) -> dict[str, float]:
    """Return CPU seconds by what is done with tokens nobody has seen."""
    facts = loaded.model.facts
    scope, block_tokens = facts.scope(None), settings.block_tokens
    ids = random_ids(tokens, 7000 + seed)
    given = tokens_of(ids)
    in_memory = replace(settings, disk_bytes=0)
    (index, _), (memory, _), (filling, _) = (
        make_cache(one, facts.shape, SystemClock()) for one in (in_memory, in_memory, settings)
    )
    started = time.process_time()
    _, _, working = generated(loaded, ids, (), 1)
    took = {"compute": time.process_time() - started}
    ready = working.blocks(0, tokens // block_tokens, block_tokens)

    copied = partial(_blocks, working, block_tokens)

    def keep(cache: KvCache[torch.Tensor], cut: Callable[[int, int], list[torch.Tensor]]) -> None:
        cache.keep(scope, given, cut, prompt_tokens=tokens, seconds_per_token=3e-3)

    def restore(cache: KvCache[torch.Tensor]) -> None:
        with cache.lease(scope, given) as lease:
            loaded.model.working(tokens).restore(lease.load())

    took["look up, miss"] = cpu_seconds(lambda: index.lease(scope, given).release())
    took["insert"] = cpu_seconds(lambda: keep(index, lambda first, end: ready[first:end]))
    took["insert and copy"] = cpu_seconds(lambda: keep(memory, copied))
    took["restore from memory"] = cpu_seconds(lambda: restore(memory))
    keep(filling, copied)
    filling.close(timeout_seconds=60)
    again, disk = make_cache(settings, facts.shape, SystemClock())
    if disk is not None:
        warm = LentCache(again, disk)
        warm.lease(scope, given).release()  # the index is made anew here, once a start
        took["restore from disk"] = cpu_seconds(lambda: restore(warm))
    again.close()
    return took


def int8(loaded: Loaded, sizes: Sizes) -> list[Row]:
    """Return how far int8 blocks move the distribution of the next tokens, over four texts."""
    kept = 64 if sizes is SMOKE else 592
    apart: dict[str, list[float]] = {}
    agree: dict[str, list[bool]] = {}
    smaller = 0.0
    for path in TEXTS:
        text = (Path(__file__).parents[1] / path).read_text(encoding="utf-8")
        ids = loaded.tokenizer.backend_tokenizer.encode(text).ids[: kept + sizes.scored_tokens]
        _, _, working = generated(loaded, ids[:kept], (), 1)
        exact = working.blocks(0, kept // 16, 16)
        packed = [pack_int8(block) for block in exact]
        smaller = sum(one.nbytes for one in exact) / 2 / sum(one.nbytes for one in packed)
        forms = {
            "int8": [unpack_int8(block, torch.float32) for block in packed],
            "bfloat16": [block.to(torch.bfloat16).float() for block in exact],
        }
        reference = _scored(loaded, ids, exact)
        for name, blocks in forms.items():
            told = _scored(loaded, ids, blocks)
            moved = torch.nn.functional.kl_div(
                told.log_softmax(-1), reference.log_softmax(-1), reduction="none", log_target=True
            )
            apart.setdefault(name, []).extend(moved.sum(-1).tolist())
            agree.setdefault(name, []).extend((told.argmax(-1) == reference.argmax(-1)).tolist())
    return [
        {
            "form": name,
            "tokens": len(apart[name]),
            "KL e-6": statistics.mean(apart[name]) * 1e6,
            "top-1 %": statistics.mean(agree[name]) * 100,
            "x smaller than bf16": smaller if name == "int8" else 1.0,
        }
        for name in apart
    ]


@torch.inference_mode()
def _scored(loaded: Loaded, ids: Sequence[int], blocks: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the logits for each token behind the kept ones, in one pass: ``[tokens, words]``."""
    working = loaded.model.working(len(ids))
    working.restore(blocks)
    start, end = working.length, len(ids)
    working.begin(start)
    positions = torch.arange(start, end)
    logits: torch.Tensor = loaded.model._network(  # noqa: SLF001
        torch.tensor([ids[start:]]),
        cache=working.cache,
        attention_mask=(positions[:, None] >= torch.arange(end))[None, None],
        position_ids=positions[None],
    ).logits
    return logits[0].float()
