"""Going on with a broken stream, by a second one that answers the same."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import Endpoint
from stepwell.wire import chat, completions, responses
from stepwell.wire.chunks import JsonObject
from stepwell.wire.resume import Resumption
from stepwell.wire.sse import format_event
from stepwell.wire.told import Diverged

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}

TEXTS = st.text("ab \né你", min_size=1, max_size=12)
CALLS = st.lists(st.tuples(st.sampled_from(["find", "book"]), TEXTS), max_size=2)


def go_on(endpoint: Endpoint, first: list[bytes], second: list[bytes], step: int = 7) -> bytes:
    """Return ``first`` and what goes on after it; the second stream comes in small bits."""
    told = b"".join(first)
    resumption = Resumption(endpoint, told)
    whole = b"".join(second)
    bits = [whole[at : at + step] for at in range(0, len(whole), step)]
    more = b"".join(map(resumption.feed, bits))
    resumption.finish()
    return told + more


def chat_answer(number: int, texts: list[str], calls: list[tuple[str, str]]) -> JsonObject:
    """Return an answer; its ids are those of call ``number``."""
    tools = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for place, (name, arguments) in enumerate(calls)
    ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": number,
        "model": "m",
        "system_fingerprint": f"fp{number}",
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": text}
                | ({"tool_calls": tools} if tools else {}),
                "finish_reason": "tool_calls" if tools else "stop",
            }
            for index, text in enumerate(texts)
        ],
        "usage": USAGE,
    }


def in_other_pieces(events: list[bytes], cuts: list[int]) -> list[bytes]:
    """Cut every delta's text in two, where it is long enough, so that no piece is as before."""
    again = []
    for place, raw in enumerate(events):
        text = raw.removeprefix(b"data: ").strip()
        chunk: dict[str, Any] = {} if text == b"[DONE]" else json.loads(text)
        choice = (chunk.get("choices") or [{}])[0]
        content = choice.get("delta", {}).get("content")
        at = cuts[place % len(cuts)]
        if not isinstance(content, str) or len(content) < 2 or at == 0:
            again.append(raw)
            continue
        for piece in (content[:at], content[at:]):
            choice["delta"] = choice["delta"] | {"content": piece}
            again.append(format_event(json.dumps(chunk).encode()))
    return again


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=2),
    calls=CALLS,
    broke_after=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    usage=st.booleans(),
)
def test_a_chat_goes_on_wherever_it_broke(
    *,
    texts: list[str],
    calls: list[tuple[str, str]],
    broke_after: int,
    cuts: list[int],
    usage: bool,
) -> None:
    answers = [chat_answer(number, texts, calls) for number in (1, 2)]
    one, two = (chat.synthesise(answer, include_usage=usage) for answer in answers)
    got = go_on(Endpoint.CHAT, one[:broke_after], in_other_pieces(two, cuts))
    by = answers[0] if broke_after else answers[1]
    whole = chat.synthesise(by, include_usage=usage)
    # A tool call that was not told of yet has the second call's id.
    one_name = got.replace(b"call_2_", b"call_1_")
    assert chat.assemble(one_name) == chat.assemble(b"".join(whole).replace(b"call_2_", b"call_1_"))
    assert got.count(b"[DONE]") == 1
    assert got.count(b'"role"') == len(texts)


@given(TEXTS, st.integers(1, 20))
def test_completions_go_on(text: str, broke_after: int) -> None:
    answers = [
        {
            "id": f"cmpl-{number}",
            "object": "text_completion",
            "created": number,
            "model": "m",
            "choices": [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}],
            "usage": USAGE,
        }
        for number in (1, 2)
    ]
    one, two = (completions.synthesise(answer, include_usage=True) for answer in answers)
    got = go_on(Endpoint.COMPLETIONS, one[: min(broke_after, len(one) - 1)], two)
    assert completions.assemble(got) == answers[0]


def response(number: int, text: str, arguments: str) -> JsonObject:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": number,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            },
            {
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "type": "function_call",
                "name": "find",
                "arguments": arguments,
                "status": "completed",
            },
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }


@given(TEXTS, TEXTS, st.integers(1, 60))
def test_responses_go_on_under_the_first_ids(text: str, arguments: str, broke_after: int) -> None:
    first = response(1, text, arguments)
    one, two = responses.synthesise(first), responses.synthesise(response(2, text, arguments))
    broke_after = min(broke_after, len(one) - 1)
    got = go_on(Endpoint.RESPONSES, one[:broke_after], two)
    assert responses.assemble(got) == without_renaming(first, renamed_to=broke_after, of=one)
    assert [json.loads(e.split(b"data: ")[1])["sequence_number"] for e in events_of(got)] == list(
        range(len(one))
    )


def events_of(sse: bytes) -> list[bytes]:
    return [event for event in sse.split(b"\n\n") if event]


def without_renaming(first: JsonObject, *, renamed_to: int, of: list[bytes]) -> JsonObject:
    """Return the answer whose items have the first ids where the first stream named them."""
    named = b"".join(of[:renamed_to])
    second = json.loads(json.dumps(first).replace("_1", "_2"))["output"]
    output = [
        mine if f'"id":"{mine["id"]}"'.encode() in named else other
        for mine, other in zip(first["output"], second, strict=True)
    ]
    return {**first, "output": output}


def chunk(**delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return format_event(json.dumps({"id": "c", "choices": [choice]}).encode())


def end(reason: str = "stop") -> bytes:
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return format_event(json.dumps({"id": "c", "choices": [choice]}).encode())


@pytest.mark.parametrize(
    ("told", "second"),
    [
        ([chunk(content="ab")], [chunk(content="ax"), end(), DONE]),
        ([chunk(content="abc")], [chunk(content="ab"), end(), DONE]),
        ([chunk(content="abc")], [chunk(content="ab"), DONE]),
        ([chunk(content="abc")], [chunk(content="ab")]),
        ([chunk(content="a"), end()], [chunk(content="a"), end("length"), DONE]),
        ([chunk(content="a")], [b"data: nonsense\n\n"]),
        ([chunk(content="a")], [b'data: {"error": {"message": "no"}}\n\n']),
        ([chunk(content="a")], [b'data: {"choices": [1]}\n\n']),
        ([chunk(content="a")], [b'data: {"choices": 1}\n\n']),
        ([chunk(content="a")], [chunk(content="a"), b"data: {"]),
    ],
)
def test_another_answer_is_not_put_behind_the_first(told: list[bytes], second: list[bytes]) -> None:
    with pytest.raises(Diverged):
        go_on(Endpoint.CHAT, told, second)


def bare(**fields: object) -> bytes:
    return format_event(json.dumps({"id": "c", "choices": [], **fields}).encode())


def test_chunks_without_choices_are_told_once() -> None:
    """What a filter says of the prompt, and the usage; but not another usage in its place."""
    filtered, usage = bare(prompt_filter_results=[1]), bare(usage=USAGE)
    first = [filtered, chunk(content="a")]
    second = [filtered, chunk(content="ab"), end(), usage, DONE]
    got = go_on(Endpoint.CHAT, first, second)
    assert got.count(b"prompt_filter_results") == 1
    assert got.count(b"usage") == 1
    whole = [*first, chunk(content="b"), end(), usage]
    other = [*second[:3], bare(usage={**USAGE, "total_tokens": 9}), DONE]
    assert go_on(Endpoint.CHAT, whole, other).count(b"usage") == 1


def test_usage_in_a_chunk_with_choices_is_not_the_last_word() -> None:
    """Some servers begin with the prompt's tokens, and end with all."""
    begun = format_event(
        json.dumps(
            {
                "id": "c",
                "choices": [{"index": 0, "delta": {"content": "a"}}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 0},
            }
        ).encode()
    )
    got = go_on(Endpoint.CHAT, [begun], [begun, chunk(content="b"), end(), bare(usage=USAGE), DONE])
    assert chat.assemble(got)["usage"] == USAGE


def test_log_probabilities_are_not_cut() -> None:
    def with_logprobs(text: str) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [{}]}}
        return format_event(json.dumps({"id": "c", "choices": [choice]}).encode())

    assert b"cd" in go_on(Endpoint.CHAT, [with_logprobs("ab")], [*map(with_logprobs, ("ab", "cd"))])
    with pytest.raises(Diverged):
        go_on(Endpoint.CHAT, [with_logprobs("ab")], [with_logprobs("abcd")])


@pytest.mark.parametrize("endpoint", list(Endpoint))
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_bytes_do_any_harm(endpoint: Endpoint, told: bytes, second: bytes) -> None:
    with contextlib.suppress(Diverged):
        go_on(endpoint, [b"data: " + told + b"\n\n"], [b"data: " + second + b"\n\n"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "index", "delta", "id", "text", "type", "item", "output", "response"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("endpoint", list(Endpoint))
@given(JSON, JSON)
def test_no_json_does_any_harm(endpoint: Endpoint, told: object, second: object) -> None:
    with contextlib.suppress(Diverged):
        first, again = ([format_event(json.dumps(one).encode())] for one in (told, second))
        go_on(endpoint, first, again)
