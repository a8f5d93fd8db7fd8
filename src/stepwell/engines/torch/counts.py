"""What the engine counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class EngineCounts:
    """Since the start; changed on the event loop only."""

    requests: int = 0
    prompt_tokens: int = 0
    kept_tokens: int = 0
    """Of prompts: restored from the cache."""
    shared_tokens: int = 0
    """Of prompts: taken over from a request that computed them just then."""
    generated_tokens: int = 0
    cut_short: int = 0
    """Answers that were not finished: cancelled, or failed."""
    cache_faults: int = 0
    """Times the cache failed; that cost time, and no answer."""
    prefill_seconds: float = 0.0
    generate_seconds: float = 0.0
