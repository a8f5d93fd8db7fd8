"""Events for tests."""

from stepwell.core.entry import Usage
from stepwell.core.events import RequestEnded, Result


def make_request_ended(
    result: Result = Result.HIT,
    *,
    layer: str = "exact",
    request_class: str = "general",
    model: str = "model",
    stream: bool = False,
    seconds: float = 0.00003,
    trail: str = "exact: hit in memory",
) -> RequestEnded:
    """Return an event; everything not given is as for a hit of `make_entry`'s entry."""
    return RequestEnded(
        result=result,
        layer=layer,
        request_class=request_class,
        endpoint="chat/completions",
        model=model,
        upstream="upstream",
        status=200,
        stream=stream,
        seconds=seconds,
        first_byte_seconds=seconds,
        usage=Usage(prompt_tokens=7, completion_tokens=11),
        saved_seconds=0.5,
        trail=trail,
        tenant="0a1b2c3d",
    )
