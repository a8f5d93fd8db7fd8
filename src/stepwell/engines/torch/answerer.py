"""From prompts to answers in words."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerFast

from stepwell.engines.torch.answer_text import AnswerText
from stepwell.engines.torch.engine import Began, Engine
from stepwell.engines.torch.prompts import Prompt, Prompter
from stepwell.engines.torch.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took, in tokens."""

    prompt_tokens: int
    cached_tokens: int
    """Of the prompt, not computed for it."""
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of an answer's text; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer is whole."""

    reason: Literal["stop", "length"]
    usage: Usage


class Answerer:
    """Answers in words, and remembers as which tokens. For one event loop."""

    def __init__(
        self, engine: Engine, prompter: Prompter, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """Take what works."""
        self.engine = engine
        self.prompter = prompter
        self._tokenizer = tokenizer.backend_tokenizer

    async def answer(
        self, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Began | Piece | Ended, None]:
        """Yield that an answer has begun, its text in pieces, and that it is whole.

        Close it to cancel, as `Engine.answer`.

        Raises:
            RequestError: The prompt is refused, or too many wait.
        """
        text = AnswerText(self._tokenizer, sampling.stop)
        shown: list[str] = []
        generated: list[int] = []
        cached, completion_tokens, was_ended = 0, 0, False
        async with aclosing(self.engine.answer(prompt, sampling)) as events:
            async for event in events:
                if isinstance(event, Began):
                    cached = event.cached_tokens
                    yield event
                    continue
                completion_tokens += 1
                if event.ends:
                    was_ended = True
                    break
                generated.append(event.token)
                if piece := text.push(event.token):
                    shown.append(piece)
                    yield Piece(piece)
                if text.is_stopped:
                    break
        if piece := text.rest():
            shown.append(piece)
            yield Piece(piece)
        if not text.is_stopped:
            self.prompter.note_answer(prompt, "".join(shown), generated)
        usage = Usage(prompt.length, cached, completion_tokens)
        yield Ended("stop" if was_ended or text.is_stopped else "length", usage)
