"""What the doctor counts."""

from collections import Counter
from dataclasses import dataclass, field

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.prompt import Part
from stepwell.policy.prompt_shape.reshaping import Rewrite
from stepwell.policy.prompt_shape.risks import Risks
from stepwell.study.doctor.comparing import Break


@dataclass(slots=True)
class Finding:
    """One cause in one part of the prompts."""

    example: Break
    """The costliest."""
    requests: int = 0
    tokens: float = 0.0
    """Lost behind it, up to the next break: each token is put down to one cause."""
    tokens_alone: float = 0.0
    """What it would save if it alone were mended: where it is the first break of a prompt."""


@dataclass(slots=True)
class Findings:
    """Of a whole log."""

    rewrites: frozenset[Rewrite]
    """Whose effect was tried."""
    lines: int = 0
    requests: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    broken_files: list[str] = field(default_factory=list)
    estimated: int = 0
    """Requests whose tokens the log does not say."""
    prompt_tokens: float = 0.0
    shared_tokens: float = 0.0
    """With which an earlier prompt began, word for word."""
    reshaped_tokens: float = 0.0
    """The same if every request had gone through the rewrites."""
    reshaped_prompt_tokens: float = 0.0
    """Of the rewritten prompts: a rewrite may add some."""
    reshaped: int = 0
    """Requests that the rewrites change."""
    risks: Risks | None = None
    """What stands in the way in the only request, where there was one."""
    found: dict[tuple[Cause, Part], Finding] = field(default_factory=dict)

    def add(self, part: Break, tokens: float, *, is_first: bool) -> None:
        """Count a break of a prompt, and what it costs there."""
        finding = self.found.setdefault((part.cause, part.part), Finding(part))
        if part.tokens > finding.example.tokens:
            finding.example = part
        finding.requests += 1
        finding.tokens += tokens
        finding.tokens_alone += tokens if is_first else 0.0
