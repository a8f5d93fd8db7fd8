"""Streams of text completions, and the answers they amount to."""

import json

import pytest
from openai.types import Completion

from stepwell.wire.chunks import JsonObject, UnreadableAnswer
from stepwell.wire.completions import assemble, synthesise

HEAD: JsonObject = {"id": "c-1", "object": "text_completion", "created": 7, "model": "m"}
USAGE: JsonObject = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def piece(
    text: str, index: int = 0, finish_reason: str | None = None, logprobs: object = None
) -> JsonObject:
    """Return a chunk with a piece of one choice."""
    choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
    return {"choices": [choice]}


def stream(*chunks: JsonObject) -> bytes:
    """Return chunks as a stream that came to its end."""
    lines = [json.dumps(HEAD | chunk) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def test_texts_and_choices() -> None:
    """Texts are put together by index; usage is the last chunk's."""
    answer = assemble(
        stream(
            piece("b", 1),
            piece("a", 0),
            piece("2", 1, "length"),
            piece("1", 0, "stop"),
            {"choices": [], "usage": USAGE},
        )
    )
    assert answer == HEAD | {
        "choices": [
            {"index": 0, "text": "a1", "logprobs": None, "finish_reason": "stop"},
            {"index": 1, "text": "b2", "logprobs": None, "finish_reason": "length"},
        ],
        "usage": USAGE,
    }
    Completion.model_validate(answer)


def lists(tokens: list[str], offset: int) -> JsonObject:
    """Return log probabilities in OpenAI's form."""
    return {
        "tokens": tokens,
        "token_logprobs": [-0.5] * len(tokens),
        "top_logprobs": [{token: -0.5} for token in tokens],
        "text_offset": [offset + index for index in range(len(tokens))],
    }


def test_logprobs() -> None:
    """Each of the lists grows."""
    answer = assemble(
        stream(
            piece("ab", logprobs=lists(["a", "b"], 0)),
            piece("c", logprobs=lists(["c"], 2)),
            piece("", finish_reason="stop"),
        )
    )
    assert answer["choices"][0]["logprobs"] == lists(["a", "b", "c"], 0)


def answer_with(text: str, logprobs: object = None) -> JsonObject:
    """Return an answer with one choice."""
    return HEAD | piece(text, finish_reason="stop", logprobs=logprobs) | {"usage": USAGE}


def pieces_of(answer: JsonObject) -> list[tuple[str, object]]:
    """Return text and log probabilities of every synthesised chunk but the last."""
    events = synthesise(answer, include_usage=False)
    assert events[-1] == b"data: [DONE]\n\n"
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]
    assert chunks[-1] == HEAD | piece("", finish_reason="stop")
    return [(chunk["choices"][0]["text"], chunk["choices"][0]["logprobs"]) for chunk in chunks[:-1]]


def test_synthesised_words() -> None:
    """Without log probabilities the text comes word by word."""
    assert pieces_of(answer_with("one two 三")) == [("one", None), (" two", None), (" 三", None)]


def test_synthesised_tokens() -> None:
    """With them it comes token by token, each with its share of every list."""
    assert pieces_of(answer_with("ab", lists(["a", "b"], 0))) == [
        ("a", lists(["a"], 0)),
        ("b", lists(["b"], 1)),
    ]


@pytest.mark.parametrize(
    "logprobs",
    [
        lists(["a", "x"], 0),
        lists(["a", "b"], 0) | {"text_offset": [0]},
        {"tokens": None, "text_offset": [0, 1]},
        {"tokens": [1, 2]},
        {"content": [{"token": "a"}]},
    ],
)
def test_logprobs_that_do_not_fit(logprobs: JsonObject) -> None:
    """Log probabilities that cannot be shared out come with the whole text."""
    assert pieces_of(answer_with("ab", logprobs)) == [("ab", logprobs)]


def test_llama_cpp_logprobs() -> None:
    """llama.cpp lists the tokens of a completion as those of a chat."""
    entries = [{"id": index, "token": token, "logprob": -1.0} for index, token in enumerate("ab")]
    assert pieces_of(answer_with("ab", {"content": entries})) == [
        ("a", {"content": entries[:1]}),
        ("b", {"content": entries[1:]}),
    ]


def test_fields_that_are_not_there() -> None:
    """A server that does not speak of log probabilities is not made to."""
    answer = HEAD | {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}
    assert b"logprobs" not in b"".join(synthesise(answer, include_usage=False))
    assert assemble(b"".join(synthesise(answer, include_usage=False))) == answer


def test_empty_lists_survive() -> None:
    """An empty text with empty lists of log probabilities has them afterwards too."""
    answer = answer_with("", lists([], 0))
    assert assemble(b"".join(synthesise(answer, include_usage=True))) == answer


@pytest.mark.parametrize(
    "answer", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"text": 5}]}, {"choices": [1]}]
)
def test_not_an_answer(answer: JsonObject) -> None:
    """No stream is made of what is no text completion."""
    with pytest.raises(UnreadableAnswer):
        synthesise(answer, include_usage=False)
