"""Laws of chat answers and their streams, judged by OpenAI's client."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionTokenLogprob,
)
from openai.types.chat.chat_completion import Choice

from stepwell.core.entry import Answer
from stepwell.core.names import Endpoint, Form
from stepwell.wire.chat import assemble, synthesise
from stepwell.wire.render import UsageFilter, render
from stepwell.wire.shape import Shape
from stepwell.wire.summary import summarise

TEXTS = st.one_of(
    st.text(),
    st.text("ab \n你好，世界🇨🇳👩‍👩‍👧é", max_size=60),
    st.sampled_from(
        [',"usage":null}', '{"usage":null,', "data: [DONE]\n\n", "word " * 40, "x" * 99]
    ),
)
CITATION = {
    "type": "url_citation",
    "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
}
LOGPROBS = st.floats(-20, 0)


@st.composite
def entries_of(draw: st.DrawFn, text: str) -> list[dict[str, Any]]:
    """Return tokens that make up ``text``, cut anywhere, inside characters too."""
    encoded = text.encode()
    cuts = draw(st.sets(st.integers(0, len(encoded)), max_size=8))
    places = sorted(cuts | {0, len(encoded)})
    tokens = [encoded[start:end] for start, end in pairwise(places)]
    return [
        {
            "token": token.decode(errors="replace"),
            "bytes": list(token),
            "logprob": draw(LOGPROBS),
            "top_logprobs": [],
        }
        for token in tokens
    ]


TOOL_CALLS = st.lists(
    st.builds(
        lambda call_id, name, arguments: {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        },
        st.text(min_size=1, max_size=8),
        st.text(max_size=8),
        st.dictionaries(st.text(max_size=4), TEXTS, max_size=2).map(json.dumps) | TEXTS,
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Return a message of any of the kinds that models give."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(TEXTS), "refusal": None}
    match draw(st.sampled_from(["text", "calls", "both", "refusal", "function_call"])):
        case "calls":
            message |= {"content": None, "tool_calls": draw(TOOL_CALLS)}
        case "both":
            message |= {"content": "x" + message["content"], "tool_calls": draw(TOOL_CALLS)}
        case "refusal":
            message |= {"content": None, "refusal": "No" + draw(TEXTS)}
        case "function_call":
            call = {"name": draw(st.text(max_size=8)), "arguments": draw(TEXTS)}
            message |= {"content": None, "function_call": call}
    extras = st.fixed_dictionaries(
        {},
        optional={
            "reasoning_content": st.none() | TEXTS,
            "reasoning": TEXTS,
            "annotations": st.lists(st.just(CITATION), max_size=2),
            "audio": st.none(),
            "provider_fields": st.just({"a": "x", "b": [1], "c": {"d": None}}),
        },
    )
    return message | draw(extras)


@st.composite
def choices(draw: st.DrawFn, index: int) -> dict[str, Any]:
    """Return a choice, with log probabilities that fit its content, do not, or are not there."""
    message = draw(messages())
    choice = {
        "index": index,
        "message": message,
        "finish_reason": draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"])),
    }
    content = message["content"] or ""
    fitting = entries_of(content).map(lambda entries: {"content": entries, "refusal": None})
    foreign = entries_of("other").map(lambda entries: {"content": entries, "refusal": None})
    logprobs = draw(st.sampled_from(["absent", "none", "fitting", "foreign"]))
    if logprobs != "absent":
        choice["logprobs"] = draw(
            {"none": st.none(), "fitting": fitting, "foreign": foreign}[logprobs]
        )
    return choice | draw(st.fixed_dictionaries({}, optional={"stop_reason": st.none() | st.text()}))


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    """Return a chat completion with one to three choices, and usage."""
    number = draw(st.integers(1, 3))
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    answer = {
        "id": draw(st.text(max_size=8)),
        "object": "chat.completion",
        "created": draw(st.integers(0, 2**33)),
        "model": "m",
        "choices": [draw(choices(index)) for index in range(number)],
        "usage": usage,
    }
    extras = st.fixed_dictionaries(
        {},
        optional={
            "system_fingerprint": st.none() | st.text(max_size=5),
            "service_tier": st.sampled_from([None, "default"]),
            "timings": st.just({"prompt_n": 5, "predicted_ms": 1.5}),
            "citations": st.lists(st.text(max_size=5), max_size=2),
        },
    )
    return answer | draw(extras)


@settings(deadline=None)
@given(answers())
def test_there_and_back(answer: dict[str, Any]) -> None:
    """A stream made of an answer amounts to that answer; without usage, to it without."""
    assert assemble(b"".join(synthesise(answer, include_usage=True))) == answer
    without = {name: value for name, value in answer.items() if name != "usage"}
    assert assemble(b"".join(synthesise(answer, include_usage=False))) == without


def called(message: ChatCompletionMessage) -> list[tuple[str, str, str]]:
    """Return identifier, name and arguments of every call in a message."""
    return [
        (call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or []
        if call.type == "function"
    ]


def scored(choice: Choice) -> list[ChatCompletionTokenLogprob]:
    """Return the log probabilities of a choice's content."""
    return (choice.logprobs.content if choice.logprobs else None) or []


@settings(deadline=None)
@given(answers())
def test_openai_s_client_reads_it(answer: dict[str, Any]) -> None:
    """Every chunk is one to OpenAI's client, which puts the same messages together."""
    sse = b"".join(synthesise(answer, include_usage=True))
    *chunks, done = [event.data for event in SSEDecoder().iter_bytes(iter([sse]))]
    assert done == "[DONE]"
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(chunk))
    theirs = state.current_completion_snapshot
    ours = ChatCompletion.model_validate(answer)
    assert theirs.usage == ours.usage
    for their, our in zip(theirs.choices, ours.choices, strict=True):
        assert their.finish_reason == our.finish_reason
        assert their.message.content == our.message.content
        assert (their.message.refusal or None) == our.message.refusal
        assert their.message.function_call == our.message.function_call
        assert called(their.message) == called(our.message)
        assert scored(their) == scored(our)


@settings(deadline=None)
@given(answers(), st.lists(st.integers(1, 5_000), max_size=6))
def test_usage_filter(answer: dict[str, Any], cuts: list[int]) -> None:
    """A stream with usage, filtered, is byte for byte the stream without, live or stored."""
    asked = b"".join(synthesise(answer, include_usage=True))
    not_asked = b"".join(synthesise(answer, include_usage=False))
    live = UsageFilter()
    places = sorted({min(cut, len(asked)) for cut in cuts} | {0, len(asked)})
    passed = [live.feed(asked[start:end]) for start, end in pairwise(places)]
    assert b"".join([*passed, live.finish()]) == not_asked
    stored = Answer(Form.SSE, asked)
    assert render(Endpoint.CHAT, stored, Shape(Form.SSE, include_usage=False)) == not_asked
    assert render(Endpoint.CHAT, stored, Shape(Form.SSE, include_usage=True)) == asked


@settings(deadline=None)
@given(answers())
def test_usage_anywhere_in_a_chunk(answer: dict[str, Any]) -> None:
    """Wherever a server puts `"usage":null`, and with white space, only that member goes."""
    for event in synthesise(answer, include_usage=False)[:-1]:
        chunk = json.loads(event.removeprefix(b"data: "))
        for place in range(len(chunk) + 1):
            members = list(chunk.items())
            members.insert(place, ("usage", None))
            asked = json.dumps(dict(members), ensure_ascii=False)
            expected = json.dumps(chunk, ensure_ascii=False)
            filtered = UsageFilter().feed(f"data: {asked}\n\n".encode())
            assert filtered == f"data: {expected}\n\n".encode()


@settings(deadline=None)
@given(answers())
def test_both_forms_are_summed_up_alike(answer: dict[str, Any]) -> None:
    """What is told of an answer does not depend on its form."""
    sse = Answer(Form.SSE, b"".join(synthesise(answer, include_usage=True)))
    body = Answer(Form.JSON, json.dumps(answer).encode())
    assert summarise(Endpoint.CHAT, sse) == summarise(Endpoint.CHAT, body)
    assert summarise(Endpoint.CHAT, sse).complete


@settings(deadline=None)
@given(answers(), st.data())
def test_a_cut_stream_is_never_complete(answer: dict[str, Any], data: st.DataObject) -> None:
    """A stream that lost its end, at any byte before [DONE], is not complete."""
    sse = b"".join(synthesise(answer, include_usage=True))
    end = data.draw(st.integers(0, len(sse) - len("]\n\n")))
    assert not summarise(Endpoint.CHAT, Answer(Form.SSE, sse[:end])).complete
