"""What servers say of their tokens, each in its own words, and what cannot be true."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Usage
from stepwell.wire.counts import MOST_TOKENS, NO_COUNT, TOO_MANY, Counts, read_counts

PLAIN = {"prompt_tokens": 830, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"usage": PLAIN}, Usage(830, 4)),
        ({"usage": PLAIN | {"prompt_tokens_details": None}}, Usage(830, 4)),
        ({"usage": PLAIN | {"prompt_tokens_details": {"cached_tokens": 812}}}, Usage(830, 4, 812)),
        ({"usage": PLAIN | {"prompt_tokens_details": {"cached_tokens": 0}}}, Usage(830, 4, 0)),
        (
            {
                "usage": {
                    "input_tokens": 830,
                    "input_tokens_details": {"cached_tokens": 812},
                    "output_tokens": 4,
                }
            },
            Usage(830, 4, 812),
        ),
        (
            {"usage": PLAIN | {"prompt_cache_hit_tokens": 812, "prompt_cache_miss_tokens": 18}},
            Usage(830, 4, 812),
        ),
        (
            {
                "usage": {
                    "input_tokens": 18,
                    "cache_read_input_tokens": 800,
                    "cache_creation_input_tokens": 12,
                    "output_tokens": 4,
                }
            },
            Usage(830, 4, 800),
        ),
        # A proxy that tells Anthropic's figures beside OpenAI's.
        ({"usage": PLAIN | {"cache_read_input_tokens": 800}}, Usage(830, 4, 800)),
        ({"usage": PLAIN, "timings": {"cache_n": 812, "prompt_n": 18}}, Usage(830, 4, 812)),
        # A stream of llama.cpp's whose usage nobody asked for.
        ({"timings": {"cache_n": 812, "prompt_n": 18, "predicted_n": 4}}, Usage(830, 4, 812)),
    ],
)
def test_every_servers_words(body: dict[str, Any], expected: Usage) -> None:
    """The prompt is the whole prompt, what was cached is a part of it."""
    assert read_counts(body) == Counts(expected)


@pytest.mark.parametrize("said", [-1, 1.5, True, "812", [], {}, 10**400, MOST_TOKENS + 1])
def test_what_is_no_count_is_not_known(said: object) -> None:
    """It is told as a fault, and the other counts stand."""
    body = {"usage": PLAIN | {"prompt_tokens_details": {"cached_tokens": said}}}
    assert read_counts(body) == Counts(Usage(830, 4), NO_COUNT)


def test_more_than_the_prompt_has() -> None:
    """Cached tokens that were counted twice are the whole prompt at most."""
    body = {"usage": PLAIN | {"prompt_tokens_details": {"cached_tokens": 1624}}}
    assert read_counts(body) == Counts(Usage(830, 4, 830), TOO_MANY)


@pytest.mark.parametrize("body", [{}, {"usage": None}, {"usage": 7, "timings": []}])
def test_nothing_said(body: dict[str, Any]) -> None:
    """An answer without counts has no usage, and no fault either."""
    assert read_counts(body) == Counts(None)


NAMES = st.sampled_from(
    "prompt_tokens input_tokens completion_tokens output_tokens prompt_tokens_details"
    " input_tokens_details cached_tokens prompt_cache_hit_tokens cache_read_input_tokens"
    " cache_creation_input_tokens cache_n prompt_n predicted_n".split()
)
VALUES = st.none() | st.booleans() | st.integers(-3, 20) | st.integers() | st.floats() | st.text()
ODD = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=8)


@given(st.fixed_dictionaries({}, optional={"usage": ODD | VALUES, "timings": ODD | VALUES}))
def test_cached_is_part_of_the_prompt_whatever_is_said(body: dict[str, Any]) -> None:
    """The invariant of `Usage`."""
    usage = read_counts(body).usage
    if usage is not None and usage.cached_tokens is not None:
        assert 0 <= usage.cached_tokens <= usage.prompt_tokens
