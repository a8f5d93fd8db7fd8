"""Which token comes next."""

from dataclasses import dataclass

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an answer's tokens are chosen, and where it ends."""

    temperature: float = 1.0
    """0: always the likeliest token."""
    top_p: float = 1.0
    seed: int | None = None
    """The same seed, prompt and settings give the same answer."""
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    """Texts before which an answer ends."""


class Sampler:
    """Chooses the tokens of one answer. For one thread at a time."""

    def __init__(self, sampling: Sampling) -> None:
        """Begin with the seed, or at random."""
        self._is_greedy = sampling.temperature == 0
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)
        self._warpers = LogitsProcessorList()
        if not self._is_greedy:
            self._warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_p < 1:
            self._warpers.append(TopPLogitsWarper(float(sampling.top_p)))

    def choose(self, logits: torch.Tensor) -> int:
        """Return a token, given float32 logits ``[vocabulary]``."""
        if self._is_greedy:
            return int(logits.argmax())
        no_tokens = torch.empty((1, 0), dtype=torch.long)
        warped = self._warpers(no_tokens, logits[None])
        likely = torch.softmax(warped[0], dim=-1)
        return int(torch.multinomial(likely, 1, generator=self._random))
