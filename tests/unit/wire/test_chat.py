"""Chat streams as real servers send them, and the answers they amount to."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from stepwell.wire.chat import assemble, synthesise
from stepwell.wire.chunks import JsonObject, UnreadableAnswer

HEAD: JsonObject = {"id": "c-1", "created": 7, "model": "m"}
USAGE: JsonObject = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def stream(*chunks: JsonObject, done: bool = True) -> bytes:
    """Return chunks as a stream."""
    lines = [json.dumps(HEAD | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def delta(index: int = 0, finish_reason: str | None = None, **fields: Any) -> JsonObject:
    """Return a chunk with a delta of one choice."""
    choice = {"index": index, "delta": fields, "finish_reason": finish_reason}
    return {"choices": [choice]}


def message_of(*chunks: JsonObject) -> JsonObject:
    """Return the message that a stream with one choice amounts to."""
    answer = assemble(stream(*chunks))
    message: JsonObject = answer["choices"][0]["message"]
    return message


def test_plain_stream() -> None:
    """Contents are put together; the rest is what the server says of a whole answer."""
    answer = assemble(
        stream(
            delta(role="assistant", content="", refusal=None) | {"usage": None},
            delta(content="Hel") | {"usage": None, "obfuscation": "x7"},
            delta(content="lo 你好"),
            delta(finish_reason="stop"),
            {"choices": [], "usage": USAGE},
        )
    )
    assert answer == HEAD | {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello 你好", "refusal": None},
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
    ChatCompletion.model_validate(answer)


def test_choices_come_interleaved() -> None:
    """With n > 1 the choices' deltas come in any order and are told apart by their index."""
    answer = assemble(
        stream(
            delta(1, role="assistant", content="b1 "),
            delta(0, role="assistant", content="a1 "),
            {
                "choices": [
                    {"index": 0, "delta": {"content": "a2"}, "finish_reason": "stop"},
                    {"index": 1, "delta": {"content": "b2"}, "finish_reason": "length"},
                ]
            },
        )
    )
    assert [
        (choice["index"], choice["message"]["content"], choice["finish_reason"])
        for choice in answer["choices"]
    ] == [(0, "a1 a2", "stop"), (1, "b1 b2", "length")]


def test_tool_calls() -> None:
    """Calls are told apart by index, their arguments put together, and content is null."""
    message = message_of(
        delta(role="assistant", content=""),
        delta(
            tool_calls=[
                {
                    "index": 0,
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": ""},
                }
            ]
        ),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"x"'}}]),
        delta(
            tool_calls=[
                {"index": 0, "function": {"arguments": ":1}"}},
                {
                    "index": 1,
                    "id": "b",
                    "type": "function",
                    "function": {"name": "g", "arguments": "{}"},
                },
            ]
        ),
        delta(finish_reason="tool_calls"),
    )
    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_tool_calls_in_another_order() -> None:
    """Calls are listed by their index, whichever is heard of first."""
    calls = [{"index": index, "id": f"call_{index}"} for index in (2, 0, 1)]
    message = message_of(delta(role="assistant", tool_calls=calls))
    assert [call["id"] for call in message["tool_calls"]] == ["call_0", "call_1", "call_2"]


def test_call_fields_that_are_repeated() -> None:
    """Some servers send id, type and role with every delta; they are not put together."""
    call = {"index": 0, "id": "a", "type": "function"}
    message = message_of(
        delta(role="assistant", tool_calls=[call | {"function": {"name": "f", "arguments": "{"}}]),
        delta(role="assistant", tool_calls=[call | {"function": {"arguments": "}"}}]),
    )
    assert message["role"] == "assistant"
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ]


def test_call_without_index() -> None:
    """Deltas of calls that do not say which call they go on with cannot be put together."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(UnreadableAnswer):
        assemble(stream(delta(tool_calls=[call])))


def test_legacy_function_call() -> None:
    """The call of old, before tools."""
    message = message_of(
        delta(role="assistant", content=None, function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"x":'}),
        delta(function_call={"arguments": "1}"}),
    )
    assert message["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert message["content"] is None


def test_refusal() -> None:
    """A refusal is put together; the empty content before it becomes null."""
    message = message_of(
        delta(role="assistant", content="", refusal=None),
        delta(refusal="I can"),
        delta(refusal="not."),
    )
    assert message == {"role": "assistant", "content": None, "refusal": "I cannot."}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning(field: str) -> None:
    """DeepSeek, vLLM and llama.cpp send what the model thinks beside the content."""

    def thought(text: str, field: str) -> JsonObject:
        return {"choices": [{"index": 0, "delta": {field: text}}]}

    message = message_of(
        delta(role="assistant", content=None),
        thought("Let me ", field),
        thought("think.", field),
        delta(content="42"),
    )
    assert message == {"role": "assistant", "content": "42", field: "Let me think."}


def test_empty_content_stays() -> None:
    """An answer without a word is an empty string, not null."""
    assert message_of(delta(role="assistant", content=""), delta())["content"] == ""


def test_logprobs() -> None:
    """Lists of log probabilities grow; chunks without them change nothing."""
    entries: list[JsonObject] = [
        {"token": t, "bytes": None, "logprob": -0.5, "top_logprobs": []} for t in "abc"
    ]
    pieces = [{"content": entries[:1], "refusal": None}, None, {"content": entries[1:]}]
    chunks = [delta(content="x") for _ in pieces]
    for chunk, logprobs in zip(chunks, pieces, strict=True):
        chunk["choices"][0]["logprobs"] = logprobs
    answer = assemble(stream(*chunks))
    assert answer["choices"][0]["logprobs"] == {"content": entries, "refusal": None}


def test_llama_cpp_stream() -> None:
    """llama.cpp's last chunk has usage and timings of its own; both are in the answer."""
    answer = assemble(
        stream(
            delta(role="assistant", content=None),
            delta(content="Hi"),
            delta(finish_reason="stop"),
            {"choices": [], "usage": USAGE, "timings": {"prompt_n": 3, "predicted_ms": 1.5}},
        )
    )
    assert answer["timings"] == {"prompt_n": 3, "predicted_ms": 1.5}
    assert answer["usage"] == USAGE


def test_vllm_extras() -> None:
    """Tokens of vLLM grow with the choice; its stop reason is the last one given."""
    first = delta(role="assistant", content="a")
    first["choices"][0] |= {"token_ids": [1, 2], "stop_reason": None}
    second = delta(content="b", finish_reason="stop")
    second["choices"][0] |= {"token_ids": [3], "stop_reason": "</s>"}
    choice = assemble(stream(first, second))["choices"][0]
    assert (choice["token_ids"], choice["stop_reason"]) == ([1, 2, 3], "</s>")


def test_azure_stream() -> None:
    """Azure begins with a chunk that has no choices, and empty strings for what is to come."""
    opening = {"id": "", "model": "", "created": 0, "choices": [], "prompt_filter_results": [1]}
    answer = assemble(stream(opening, delta(role="assistant", content="a", finish_reason="stop")))
    assert (answer["id"], answer["model"], answer["created"]) == ("c-1", "m", 7)
    assert answer["prompt_filter_results"] == [1]
    assert "usage" not in answer


def test_unknown_delta_fields() -> None:
    """What we do not know is added up by its type."""
    message = message_of(
        delta(mood="gl", notes=[1], level=1, audio={"id": "x", "data": "AA", "expires_at": 1}),
        delta(mood="ad", notes=[2], level=2, audio={"id": "x", "data": "BB", "expires_at": 2}),
    )
    assert message["mood"] == "glad"
    assert message["notes"] == [1, 2]
    assert message["level"] == 2
    assert message["audio"] == {"id": "x", "data": "AABB", "expires_at": 2}


@pytest.mark.parametrize(
    "sse",
    [
        b"",
        b"<html>Bad Gateway</html>",
        stream(delta(content="a"), done=False),
        stream(delta(content="a"), {"error": {"message": "boom"}}),
        stream(delta(content="a")).replace(b"data: [DONE]", b"data: {cut"),
        b"event: error\ndata: {}\n\ndata: [DONE]\n\n",
        b"data: [1]\n\ndata: [DONE]\n\n",
        stream({"choices": {}}),
        stream({"choices": ["a"]}),
        stream({"choices": [{"index": 0, "delta": "a"}]}),
        stream({"choices": [{"index": "0", "delta": {}}]}),
    ],
)
def test_no_answer(sse: bytes) -> None:
    """What is broken, cut off or not chat is no answer."""
    with pytest.raises(UnreadableAnswer):
        assemble(sse)


def test_what_comes_after_done_spoils_the_stream() -> None:
    """It would be said again with every replay; a comment says nothing."""
    whole = stream(delta(role="assistant", content="a"))
    assert assemble(whole + b": bye\n\n") == assemble(whole)
    with pytest.raises(UnreadableAnswer):
        assemble(whole + b"data: rubbish\n\n")


def test_long_stream() -> None:
    """Any number of deltas is put together."""
    assert message_of(*[delta(content="word ")] * 20_000)["content"] == "word " * 20_000


def answer_with(message: JsonObject, **fields: Any) -> JsonObject:
    """Return an answer with one choice."""
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return HEAD | {"object": "chat.completion", "choices": [choice], "usage": USAGE} | fields


def chunks_of(answer: JsonObject, *, include_usage: bool = False) -> list[JsonObject]:
    """Return the chunks synthesised for an answer; the stream must end with [DONE]."""
    events = synthesise(answer, include_usage=include_usage)
    assert events[-1] == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]


def test_synthesised_stream() -> None:
    """A stream begins with the role, goes on word by word, and ends with the finish reason."""
    chunks = chunks_of(answer_with({"role": "assistant", "content": "Hi there 你好!"}))
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {"content": " there"},
        {"content": " 你"},
        {"content": "好"},
        {"content": "!"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 6 + ["stop"]
    assert all(chunk.items() >= HEAD.items() for chunk in chunks)
    assert not any("usage" in chunk for chunk in chunks)


def test_synthesised_usage() -> None:
    """If it is asked for, usage is null in every chunk and has a chunk of its own at the end."""
    chunks = chunks_of(answer_with({"role": "assistant", "content": "Hi"}), include_usage=True)
    assert [chunk["usage"] for chunk in chunks] == [None] * 3 + [USAGE]
    assert chunks[-1]["choices"] == []


def test_synthesised_order() -> None:
    """Reasoning comes before content, content before tool calls."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "tool_calls": [call], "content": "b", "reasoning": "a"}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks_of(answer_with(message))]
    opened = call | {"function": {"name": "f", "arguments": ""}}
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning": "a"},
        {"content": "b"},
        {"tool_calls": [{"index": 0, **opened}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
        {},
    ]


def entry(token: bytes) -> JsonObject:
    """Return the log probability of a token."""
    return {"token": token.decode(errors="replace"), "bytes": list(token), "logprob": -1.0}


def test_logprobs_decide_the_pieces() -> None:
    """With log probabilities the content is cut at its tokens, but never inside a character."""
    tokens = [b"He", b"llo \xf0\x9f", b"\x98\x80", b"!"]
    answer = answer_with({"role": "assistant", "content": "Hello 😀!"})
    answer["choices"][0]["logprobs"] = {"content": [entry(t) for t in tokens], "refusal": None}
    chunks = chunks_of(answer)[1:-1]
    assert [
        (chunk["choices"][0]["delta"]["content"], len(chunk["choices"][0]["logprobs"]["content"]))
        for chunk in chunks
    ] == [("He", 1), ("llo 😀", 2), ("!", 1)]


@pytest.mark.parametrize(
    "entries",
    [
        [entry(b"Hell"), entry(b"o"), entry(b"</s>")],
        [entry(b"Hello"[:4])],
        [entry(b"\xf0")] * 50,
        [{"token": "Hello", "bytes": [300]}],
        [{"token": None}],
        [7],
    ],
)
def test_logprobs_of_another_text(entries: list[Any]) -> None:
    """Tokens that are not the content's do not cut it: it comes whole, with all of them."""
    answer = answer_with({"role": "assistant", "content": "Hello"})
    answer["choices"][0]["logprobs"] = {"content": entries}
    choice = chunks_of(answer)[1]["choices"][0]
    assert (choice["delta"], choice["logprobs"]) == ({"content": "Hello"}, {"content": entries})


def test_what_a_stream_cannot_say() -> None:
    """The documented losses: a call's index, empty content beside a call, usage of null."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given = {"role": "assistant", "content": "", "tool_calls": [call | {"index": 0}]}
    answer = answer_with(given, usage=None)
    back = assemble(b"".join(synthesise(answer, include_usage=False)))
    assert back["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
    }
    assert "usage" not in back


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": "hi"}]},
        {"choices": [{"message": {"tool_calls": "x"}}]},
        {"error": {"message": "boom"}},
    ],
)
def test_not_an_answer(answer: JsonObject) -> None:
    """No stream is made of what is no chat completion."""
    with pytest.raises(UnreadableAnswer):
        synthesise(answer, include_usage=False)


@pytest.mark.parametrize("usage", [None, {}, "x"])
def test_usage_that_is_not_there(usage: object) -> None:
    """Usage is never made up."""
    with pytest.raises(UnreadableAnswer):
        synthesise(
            answer_with({"role": "assistant", "content": "a"}, usage=usage), include_usage=True
        )
