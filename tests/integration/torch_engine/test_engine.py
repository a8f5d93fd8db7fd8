"""One computation for many, cancelling anywhere, and a cache that fails."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import torch
from integration.torch_engine.conftest import MakeParts
from integration.torch_engine.talk import answer_ids
from support.torch_models import CONTEXT_TOKENS, random_ids

from stepwell.assembly.torch_parts import TorchParts
from stepwell.core.errors import RequestError
from stepwell.core.kv import KvScope, Tokens
from stepwell.core.names import Namespace
from stepwell.engines.torch.engine import Engine
from stepwell.engines.torch.loading import Loaded
from stepwell.engines.torch.prompts import Prompter
from stepwell.engines.torch.sampling import Sampling


async def settled(parts: TorchParts) -> None:
    """Wait until the engine holds nothing any more."""
    for _ in range(500):
        if not parts.answerer.engine.active:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a request is still held")


async def test_a_prefix_asked_by_many_at_once_is_computed_once(make_parts: MakeParts) -> None:
    """Requests with the same new system prompt wait for the first one and take what it computed."""
    parts = make_parts()
    system = random_ids(900, seed=1)
    prompts = [[*system, *random_ids(5 + number, seed=number)] for number in range(4)]
    answers = await asyncio.gather(*(answer_ids(parts, ids, 4) for ids in prompts))
    assert sorted(cached for _, cached in answers) == [0, 896, 896, 896]
    counts = parts.answerer.engine.counts
    assert counts.shared_tokens == 3 * 896
    alone = make_parts()
    for ids, (answer, _) in zip(prompts, answers, strict=True):
        assert (await answer_ids(alone, ids, 4))[0] == answer


async def test_who_waits_goes_on_alone_when_the_first_one_leaves(make_parts: MakeParts) -> None:
    """A request that is cancelled in the middle of its prompt takes nobody along."""
    parts = make_parts()
    ids = random_ids(1500, seed=1)
    first = asyncio.create_task(answer_ids(parts, ids, 1))
    await asyncio.sleep(0)
    second = asyncio.create_task(answer_ids(parts, [*ids, 5], 1))
    while parts.answerer.engine.active != 2:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0)
    first.cancel()
    answer, cached = await second
    assert answer == (await answer_ids(make_parts(), [*ids, 5], 1))[0]
    assert cached < 1500
    with pytest.raises(asyncio.CancelledError):
        await first
    await settled(parts)
    assert parts.cache.figures().leases == 0


@pytest.mark.parametrize("steps", [0, 1, 3, 8, 20, 40])
async def test_cancelling_anywhere_frees_everything(make_parts: MakeParts, steps: int) -> None:
    """After it, nothing is on loan, no slot is taken, and the next answer is right."""
    parts = make_parts(slots=1)
    ids = random_ids(700, seed=2)
    await answer_ids(parts, ids[:200], 1)
    asking = asyncio.create_task(answer_ids(parts, ids, 20))
    for _ in range(steps):
        await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await settled(parts)
    assert parts.cache.figures().leases == 0
    answer, _ = await answer_ids(parts, ids, 4)
    assert answer == (await answer_ids(make_parts(), ids, 4))[0]


async def test_what_was_computed_of_a_cancelled_prompt_is_kept(make_parts: MakeParts) -> None:
    """Whoever gives up and asks again does not wait again for all of it."""
    parts = make_parts()
    ids = random_ids(1800, seed=3)
    prompt = parts.answerer.prompter.tokens(ids, None)
    asking = asyncio.create_task(answer_ids(parts, ids, 1))
    running = parts.answerer.engine._running
    while not (running._sequences and running._sequences[0].working.length >= 512):  # noqa: ASYNC110
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await settled(parts)
    scope = parts.answerer.engine._model.facts.scope(None)
    with parts.cache.lease(scope, prompt.tokens) as lease:
        assert 512 <= lease.matched_tokens < 1800


class BrokenCache:
    """A cache that fails at one of its calls."""

    block_tokens = 16

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self.released = 0
        self.matched_tokens = 64

    def _check(self, name: str) -> None:
        if name == self._fault:
            raise OSError("out of order")

    def lease(self, scope: KvScope, tokens: Tokens) -> Any:
        self._check("lease")
        return self

    def load(self) -> Sequence[torch.Tensor]:
        self._check("load")
        return [torch.zeros(1)] if self._fault == "shape" else []

    def release(self) -> None:
        self.released += 1
        self._check("release")

    def keep(self, *_: object, **__: object) -> int:
        self._check("keep")
        return 0


@pytest.mark.parametrize("fault", ["lease", "load", "shape", "keep", "release"])
async def test_a_failing_cache_costs_no_answer(
    loaded: Loaded, make_parts: MakeParts, fault: str
) -> None:
    """Whatever the cache raises or returns, the answer is the same, and the fault is counted."""
    broken: Any = BrokenCache(fault)
    engine = Engine(loaded.model, broken)
    parts = make_parts()
    answerer = parts.answerer
    ids = random_ids(100, seed=4)
    expected, _ = await answer_ids(parts, ids, 3)
    answerer.engine = engine
    assert (await answer_ids(parts, ids, 3))[0] == expected
    await settled(parts)
    assert engine.counts.cache_faults == 1
    assert broken.released == (0 if fault == "lease" else 1)
    await engine.aclose()


async def test_tenants_share_nothing(make_parts: MakeParts) -> None:
    """What one tenant asked is found by that tenant only; nor while it is computed."""
    parts = make_parts()
    ids = random_ids(300, seed=5)
    one, other = Namespace(b"1" * 16), Namespace(b"2" * 16)
    at_once = await asyncio.gather(*(answer_ids(parts, ids, 1, who) for who in (one, other)))
    assert [cached for _, cached in at_once] == [0, 0]
    await settled(parts)
    assert (await answer_ids(parts, ids, 1, None))[1] == 0
    assert (await answer_ids(parts, ids, 1, one))[1] == 288


async def test_prompts_that_cannot_be_answered_are_refused(make_parts: MakeParts) -> None:
    """Empty, as long as the model's context, far longer, with tokens that are none."""
    parts = make_parts()
    for ids in ([], [5] * CONTEXT_TOKENS, [5] * 32_000):
        with pytest.raises(RequestError) as refused:
            await answer_ids(parts, ids, 1)
        assert refused.value.status == 400
    with pytest.raises(RequestError, match="token ids"):
        await answer_ids(parts, [5, 320], 1)
    answer, _ = await answer_ids(parts, [5] * (CONTEXT_TOKENS - 1), 9)
    assert len(answer) <= 1


async def test_too_many_at_once_are_told_so(loaded: Loaded, make_parts: MakeParts) -> None:
    """Beyond what may wait, a request is refused with 429; the others are answered."""
    parts = make_parts()
    engine = Engine(loaded.model, parts.cache, slots=1, max_waiting=2)
    parts.answerer.engine = engine
    asking = [answer_ids(parts, random_ids(40, seed), 2) for seed in range(6)]
    done = await asyncio.gather(*asking, return_exceptions=True)
    refused = [one for one in done if isinstance(one, RequestError)]
    assert {one.status for one in refused} == {429}
    assert len(done) - len(refused) >= 3
    await settled(parts)
    await engine.aclose()


async def test_the_same_seed_gives_the_same_answer_warm_or_cold(make_parts: MakeParts) -> None:
    """Sampling depends on the seed and on what is asked, not on what was kept."""
    parts = make_parts()
    prompt = parts.answerer.prompter.tokens(random_ids(200, seed=6), None)
    sampling = Sampling(temperature=1.0, top_p=0.9, seed=11, max_tokens=12)

    async def answer(chosen: Sampling) -> list[int]:
        async with aclosing(parts.answerer.engine.answer(prompt, chosen)) as events:
            return [event.token async for event in events if hasattr(event, "token")]

    cold = await answer(sampling)
    assert await answer(sampling) == cold
    assert await answer(replace(sampling, seed=12)) != cold


async def test_answers_are_not_encoded_again(loaded: Loaded, make_parts: MakeParts) -> None:
    """The tokenizer spells "the" as one token; where the model wrote three, they stay three."""
    prompter: Prompter = make_parts().answerer.prompter
    tokenizer = loaded.tokenizer.backend_tokenizer
    messages = [{"role": "user", "content": "say it"}]
    prompt = prompter.chat(messages, None)
    spelled = [tokenizer.token_to_id(letter) for letter in "the"]
    assert tokenizer.encode("the").ids != spelled
    prompter.note_answer(prompt, "the", spelled)
    turn = [*messages, {"role": "assistant", "content": "the"}, {"role": "user", "content": "on"}]
    following = prompter.chat(turn, None)
    assert following.ids[: prompt.length + 3] == (*prompt.ids, *spelled)
    assert tokenizer.decode(list(following.ids), skip_special_tokens=False) == following.text
    others = prompter.chat(turn, Namespace(b"1" * 16))
    assert others.ids != following.ids
