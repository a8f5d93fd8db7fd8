"""Ways to ask an engine."""

from collections.abc import Sequence
from contextlib import aclosing

from stepwell.assembly.torch_parts import TorchParts
from stepwell.core.names import Namespace
from stepwell.engines.torch.answerer import Ended, Piece
from stepwell.engines.torch.engine import Began
from stepwell.engines.torch.prompts import Prompt
from stepwell.engines.torch.sampling import Sampling


async def answer_ids(
    parts: TorchParts, ids: Sequence[int], count: int, tenant: Namespace | None = None
) -> tuple[list[int], int]:
    """Return at most ``count`` greedy tokens, and how many of the prompt were not computed."""
    answerer = parts.answerer
    prompt = answerer.prompter.tokens(ids, tenant)
    answer, cached = [], 0
    sampling = Sampling(temperature=0, max_tokens=count)
    async with aclosing(answerer.engine.answer(prompt, sampling)) as events:
        async for event in events:
            if isinstance(event, Began):
                cached = event.cached_tokens
            elif not event.ends:
                answer.append(event.token)
    return answer, cached


async def said(parts: TorchParts, prompt: Prompt, sampling: Sampling) -> tuple[str, Ended]:
    """Return an answer's text and end."""
    text: list[str] = []
    async with aclosing(parts.answerer.answer(prompt, sampling)) as events:
        async for event in events:
            if isinstance(event, Piece):
                text.append(event.text)
            elif isinstance(event, Ended):
                return "".join(text), event
    raise AssertionError("an answer without an end")
