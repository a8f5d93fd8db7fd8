"""Laws of text completions and their streams, judged by OpenAI's client."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder
from openai.types import Completion

from stepwell.wire.completions import assemble, synthesise
from stepwell.wire.render import UsageFilter

TEXTS = st.text() | st.text("ab \n你好🇨🇳", max_size=40) | st.just(',"usage":null}')


@st.composite
def choices(draw: st.DrawFn, index: int) -> dict[str, Any]:
    """Return a choice, with log probabilities that fit its text, do not, or are not there."""
    tokens = draw(st.lists(TEXTS, max_size=5))
    text = draw(st.just("".join(tokens)) | TEXTS)
    logprobs = {
        "tokens": tokens,
        "token_logprobs": [-0.5] * len(tokens),
        "top_logprobs": draw(st.sampled_from([None, [{"a": -0.5}] * len(tokens)])),
        "text_offset": list(range(len(tokens))),
    }
    return {
        "index": index,
        "text": text,
        "logprobs": draw(st.sampled_from([None, logprobs])),
        "finish_reason": draw(st.sampled_from(["stop", "length"])),
    }


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Return a text completion with one to three choices, and usage."""
    return {
        "id": "cmpl",
        "object": "text_completion",
        "created": 7,
        "model": "m",
        "choices": [draw(choices(index)) for index in range(draw(st.integers(1, 3)))],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }


@settings(deadline=None)
@given(answers())
def test_there_and_back(answer: dict[str, Any]) -> None:
    """A stream made of an answer amounts to that answer."""
    assert assemble(b"".join(synthesise(answer, include_usage=True))) == answer


@settings(deadline=None)
@given(answers())
def test_openai_s_client_reads_it(answer: dict[str, Any]) -> None:
    """Every chunk is one to OpenAI's client, and the texts are the same."""
    sse = b"".join(synthesise(answer, include_usage=True))
    *chunks, done = [event.data for event in SSEDecoder().iter_bytes(iter([sse]))]
    assert done == "[DONE]"
    texts = [""] * len(answer["choices"])
    for data in chunks:
        chunk = json.loads(data)
        for choice in chunk["choices"]:
            # Their type is that of whole answers, though null is what their servers send.
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        for read in Completion.model_validate(chunk).choices:
            texts[read.index] += read.text
    assert texts == [choice["text"] for choice in answer["choices"]]


@settings(deadline=None)
@given(answers())
def test_usage_filter(answer: dict[str, Any]) -> None:
    """A stream with usage, filtered, is byte for byte the stream without."""
    asked = b"".join(synthesise(answer, include_usage=True))
    assert UsageFilter().feed(asked) == b"".join(synthesise(answer, include_usage=False))
