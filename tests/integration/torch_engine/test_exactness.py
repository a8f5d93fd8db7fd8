"""In float32 an answer does not depend on what was kept: not in a token, nor in a logit's bit."""

import random
from collections.abc import Sequence

import pytest
import torch
from integration.torch_engine.conftest import MakeParts
from integration.torch_engine.talk import answer_ids
from support.torch_models import random_ids

from stepwell.engines.torch.loading import Loaded
from stepwell.engines.torch.model import Model
from stepwell.engines.torch.working_kv import WorkingKv


def prefilled(model: Model, working: WorkingKv, ids: Sequence[int]) -> torch.Tensor:
    logits = None
    while logits is None:
        logits = model.prefill(working, ids)
    return logits


def cold_answer(model: Model, ids: Sequence[int], count: int) -> list[int]:
    """Return what the model says without any cache, token by token."""
    working = model.working(len(ids) + count)
    logits = prefilled(model, working, ids)
    answer = [int(logits.argmax())]
    while len(answer) < count and answer[-1] not in model.facts.end_tokens:
        answer.append(int(model.step(working, answer[-1]).argmax()))
    return [token for token in answer if token not in model.facts.end_tokens]


@pytest.mark.parametrize("length", [17, 256, 257, 300, 511, 600])
def test_logits_are_the_same_bits_behind_any_kept_prefix(loaded: Loaded, length: int) -> None:
    """Wherever a prefix was cut, by a prompt of whatever length, nothing changes behind it."""
    model = loaded.model
    ids = random_ids(1000, seed=length)
    cold = prefilled(model, model.working(length), ids[:length])
    for other in (40, 333, 800):
        source = model.working(other)
        prefilled(model, source, ids[:other])
        most = min(other, length - 1) // 16
        for blocks in {1, most // 2, most} - {0}:
            working = model.working(length)
            working.restore(source.blocks(0, blocks, 16))
            warm = prefilled(model, working, ids[:length])
            assert torch.equal(warm, cold), (other, blocks)


def test_chunks_equal_one_pass_of_transformers(loaded: Loaded) -> None:
    """A model computed in cells, into our own cache, says what transformers says by itself."""
    ids = random_ids(700, seed=5)
    ours = prefilled(loaded.model, loaded.model.working(700), ids)
    with torch.inference_mode():
        theirs = loaded.model._network(torch.tensor([ids])).logits[0, -1]
    assert torch.allclose(ours, theirs, atol=1e-4)


async def test_answers_are_the_same_over_many_prompts(
    make_parts: MakeParts, loaded: Loaded
) -> None:
    """200 prompts that share what they may, under eviction, with other slots at work."""
    source = random.Random(7)
    systems = [random_ids(source.randrange(70, 400), seed) for seed in range(5)]
    token_bytes = loaded.model.facts.shape.token_bytes
    parts = make_parts(memory_bytes=700 * token_bytes)
    cached = 0
    for number in range(200):
        ids = [*source.choice(systems), *random_ids(source.randrange(1, 60), number)]
        answer, told = await answer_ids(parts, ids, 2)
        assert answer == cold_answer(loaded.model, ids, 2), number
        cached += told
    figures = parts.cache.figures()
    assert cached > 10_000
    assert figures.shelves[0].evicted_blocks["capacity"] > 50
    assert figures.leases == 0


async def test_conversation_goes_on_from_its_own_answers(
    make_parts: MakeParts, loaded: Loaded
) -> None:
    """Generated tokens are kept: the next turn computes only what is new, and says the same."""
    parts = make_parts()
    ids = random_ids(100, seed=1)
    for turn in range(4):
        answer, cached = await answer_ids(parts, ids, 24)
        assert answer == cold_answer(loaded.model, ids, 24)
        if turn:
            assert cached >= (len(ids) - 30) // 16 * 16
        ids = [*ids, *answer, *random_ids(20, seed=turn)]
