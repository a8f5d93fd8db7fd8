"""Laws of responses and their streams, judged by OpenAI's client."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai._streaming import SSEDecoder
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter

from stepwell.wire.responses import assemble, synthesise

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TEXTS = st.text() | st.text("ab \n你好🇨🇳", max_size=40)


def entry(character: str) -> dict[str, Any]:
    """Return the log probability of a token that is one character."""
    listed = list(character.encode())
    return {"token": character, "bytes": listed, "logprob": -0.5, "top_logprobs": []}


NOTE = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
TEXT_PARTS = st.builds(
    lambda text, notes, scored: {
        "type": "output_text",
        "text": text,
        "annotations": notes,
        "logprobs": [entry(character) for character in text] if scored else [],
    },
    TEXTS,
    st.lists(st.just(NOTE), max_size=2),
    st.booleans(),
)
REFUSALS = TEXTS.map(lambda text: {"type": "refusal", "refusal": text})
ITEMS = st.one_of(
    st.lists(TEXT_PARTS | REFUSALS, max_size=2).map(
        lambda content: {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    ),
    st.lists(TEXTS, max_size=2).map(
        lambda texts: {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in texts],
            "content": [{"type": "reasoning_text", "text": text} for text in texts],
        }
    ),
    TEXTS.map(
        lambda text: {
            "type": "function_call",
            "call_id": "c",
            "name": "f",
            "arguments": text,
            "status": "completed",
        }
    ),
    TEXTS.map(
        lambda text: {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": text}
    ),
    st.just(
        {
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "q", "queries": ["q"]},
        }
    ),
)


def response(items: list[dict[str, Any]], status: str) -> dict[str, Any]:
    """Return a response; every item has an identifier of its own."""
    unique = [
        item | {"id": f"i_{n}"} | ({"call_id": f"c_{n}"} if "call_id" in item else {})
        for n, item in enumerate(items)
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "status": status,
        "error": None,
        "incomplete_details": None if status == "completed" else {"reason": "max_output_tokens"},
        "instructions": None,
        "metadata": {},
        "model": "m",
        "output": unique,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12,
        },
    }


RESPONSES = st.builds(
    response, st.lists(ITEMS, max_size=4), st.sampled_from(["completed", "incomplete"])
)


@settings(deadline=None)
@given(RESPONSES)
def test_there_and_back(answer: dict[str, Any]) -> None:
    """A stream made of a response holds that response in its last event."""
    assert assemble(b"".join(synthesise(answer))) == answer


@settings(deadline=None)
@given(RESPONSES)
def test_openai_s_client_reads_it(answer: dict[str, Any]) -> None:
    """Every event is one to OpenAI's client, numbered in order; its texts are the response's."""
    sse = b"".join(synthesise(answer))
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    texts: dict[tuple[int, int], str] = {}
    for number, raw in enumerate(SSEDecoder().iter_bytes(iter([sse]))):
        event = EVENTS.validate_json(raw.data)
        assert (event.sequence_number, event.type) == (number, raw.event)
        state.handle_event(event)
        if isinstance(event, ResponseTextDeltaEvent):
            place = (event.output_index, event.content_index)
            texts[place] = texts.get(place, "") + event.delta
    assert "".join(texts.values()) == Response.model_validate(answer).output_text
