"""The packaged model: converted from GGUF, said the same warm and cold, and what int8 changes."""

import importlib.util
from pathlib import Path

import pytest
import torch
from support.torch_models import random_ids

from stepwell.engines.torch.int8 import pack_int8, unpack_int8
from stepwell.engines.torch.loading import Loaded, load
from stepwell.engines.torch.model import use_threads
from stepwell.engines.torch.working_kv import WorkingKv
from stepwell.engines.weights import WEIGHTS_PACKAGE, find_weights

TEXT = Path(__file__).parents[3] / "LICENSE"
KEPT_TOKENS = 256

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec(WEIGHTS_PACKAGE) is None,
        reason=f"not installed: {WEIGHTS_PACKAGE}",
    ),
]


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    use_threads(1)
    cache = tmp_path_factory.mktemp("converted")
    return load(find_weights(), name="smollm2", dtype="float32", cache=cache)


def prefilled(loaded: Loaded, ids: list[int], working: WorkingKv) -> torch.Tensor:
    logits = None
    while logits is None:
        logits = loaded.model.prefill(working, ids)
    return logits


def test_conversion_keeps_words_and_weights(smollm: Loaded) -> None:
    """The tokenizer knows its special tokens and template; the model knows a capital."""
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    text = smollm.tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    ids = smollm.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    assert (ids[0], ids[-2]) == (1, smollm.tokenizer.convert_tokens_to_ids("istant"))
    working = smollm.model.working(len(ids) + 8)
    tokens = [int(prefilled(smollm, ids, working).argmax())]
    while len(tokens) < 8 and tokens[-1] not in smollm.model.facts.end_tokens:
        tokens.append(int(smollm.model.step(working, tokens[-1]).argmax()))
    assert "Paris" in smollm.tokenizer.decode(tokens)


@pytest.mark.parametrize(("kept", "length"), [(48, 70), (240, 257), (256, 290)])
def test_the_same_bits_warm_and_cold(smollm: Loaded, kept: int, length: int) -> None:
    """Behind a prefix that was computed as a part of another prompt."""
    shared = random_ids(kept, seed=kept)
    ids = [*shared, *random_ids(length - kept, seed=1)]
    other = [*shared, *random_ids(9, seed=2)]
    source = smollm.model.working(len(other))
    prefilled(smollm, other, source)
    warm = smollm.model.working(length)
    warm.restore(source.blocks(0, kept // 16, 16))
    cold = prefilled(smollm, ids, smollm.model.working(length))
    assert torch.equal(prefilled(smollm, ids, warm), cold)


def test_int8_moves_little(smollm: Loaded) -> None:
    """A quarter of float32, and nearly the same distribution for tokens behind it."""
    text = TEXT.read_text(encoding="utf-8")
    ids = smollm.tokenizer.backend_tokenizer.encode(text).ids[: KEPT_TOKENS + 24]
    source = smollm.model.working(KEPT_TOKENS)
    prefilled(smollm, ids[:KEPT_TOKENS], source)
    exact = source.blocks(0, KEPT_TOKENS // 16, 16)
    packed = [pack_int8(block) for block in exact]
    smaller = sum(block.nbytes for block in exact) / sum(block.nbytes for block in packed)
    assert smaller / 2 >= 1.9  # than bfloat16
    told = []
    for blocks in (exact, [unpack_int8(block, torch.float32) for block in packed]):
        working = smollm.model.working(len(ids))
        working.restore(blocks)
        told.append(torch.stack([smollm.model.step(working, token) for token in ids[KEPT_TOKENS:]]))
    one, other = (logits.log_softmax(-1) for logits in told)
    apart = torch.nn.functional.kl_div(other, one, reduction="batchmean", log_target=True)
    assert 0 < apart <= 1e-3
