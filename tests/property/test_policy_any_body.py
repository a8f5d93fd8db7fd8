"""Bodies come from strangers: whatever their shape, nothing raises."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import Endpoint
from stepwell.policy.bypass import bypass_reason
from stepwell.policy.classes import BUILT_IN_CLASSES
from stepwell.policy.classifier import classify
from stepwell.policy.text import has_more_than_text, last_user_text, system_text

WORDS = st.sampled_from(
    [
        "user",
        "system",
        "text",
        "input_text",
        "translate",
        "def f():",
        "今天天气怎么样",
        "\ud800",
        "",
    ]
)
LEAVES = st.sampled_from([None, True, False, 0, -1, 1.5]) | WORDS
FIELDS = st.sampled_from(
    [
        *("messages", "input", "prompt", "instructions", "role", "content", "text", "type"),
        *("tools", "modalities", "tool_calls", "suffix", "id", "version", "background"),
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=20,
)
BODIES = st.dictionaries(FIELDS, JSON, max_size=6)


@given(st.sampled_from(Endpoint), BODIES)
def test_no_body_is_too_odd(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Every reader gives an answer of its type for every JSON object."""
    assert isinstance(last_user_text(endpoint, body), str)
    assert isinstance(system_text(endpoint, body), str)
    assert isinstance(has_more_than_text(endpoint, body), bool)
    assert classify(endpoint, body).request_class in BUILT_IN_CLASSES
    assert isinstance(bypass_reason(endpoint, body), str | None)


@given(st.sampled_from(Endpoint), BODIES)
def test_suggestions_are_deterministic(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """The same body gets the same suggestion."""
    assert classify(endpoint, body) == classify(endpoint, body)
