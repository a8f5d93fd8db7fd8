"""Which words of a request may be put otherwise, and what stays equal around them."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Phrasing
from stepwell.core.names import Endpoint
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect, KeyRules
from stepwell.keys.phrase import take_phrase
from stepwell.testing.entries import make_namespace

TENANT = make_namespace("tenant")
SCHEME = KeyScheme("upstream")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOLS = [{"type": "function", "function": {"name": "search_books", "parameters": {}}}]


def chat(text: Any = "How do I return it?", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def phrasing(
    body: Mapping[str, Any], endpoint: Endpoint = Endpoint.CHAT, scheme: KeyScheme = SCHEME
) -> Phrasing | None:
    return scheme.phrasing(TENANT, endpoint, body)


def partition(body: Mapping[str, Any], endpoint: Endpoint = Endpoint.CHAT) -> bytes:
    found = phrasing(body, endpoint)
    assert found is not None
    return found.partition


def test_other_words_are_in_the_same_partition() -> None:
    """Only the user's last words and the temperature may differ."""
    assert partition(chat("How do I return it?")) == partition(chat("Can it be returned?"))
    assert partition(chat(temperature=0.2)) == partition(chat(temperature=0.3))
    assert partition(chat(stream=True)) == partition(chat())


@pytest.mark.parametrize(
    "other",
    [
        chat(model="n"),
        chat(tools=TOOLS),
        chat(tools=TOOLS, tool_choice="required"),
        chat(tools=[{"type": "function", "function": {"name": "search_news"}}]),
        chat(response_format={"type": "json_object"}),
        chat(max_tokens=5),
        chat(seed=1),
        chat(top_p=0.5),
        chat(n=2),
        chat(invented_tomorrow=1),
        chat([{"type": "text", "text": "How do I return it?"}, IMAGE]),
        {"model": "m", "messages": [{"role": "user", "content": "Hi", "name": "ann"}]},
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You are a poet."},
                {"role": "user", "content": "How do I return it?"},
            ],
        },
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "My shoes are too small."},
                {"role": "assistant", "content": "Sorry to hear that."},
                {"role": "user", "content": "How do I return it?"},
            ],
        },
    ],
)
def test_whatever_else_differs_makes_another_partition(other: dict[str, Any]) -> None:
    """The rest of the request is compared to the letter, known to us or not."""
    assert partition(other) != partition(chat())


def test_another_image_is_another_partition() -> None:
    """The same words about another picture."""
    one = chat([{"type": "text", "text": "What is it?"}, IMAGE])
    changed = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAB"}}
    assert partition(one) != partition(chat([{"type": "text", "text": "What is it?"}, changed]))


def test_tenant_endpoint_upstream_and_rules_are_in_the_partition() -> None:
    """Nobody shares with another tenant, server or reading of the request."""
    body = chat()
    schemes = [
        SCHEME,
        KeyScheme("another"),
        KeyScheme("upstream", KeyRules(dialect=Dialect.ENGINE)),
        KeyScheme("upstream", KeyRules(ignored_fields=frozenset({"user"}))),
    ]
    found = [scheme.phrasing(TENANT, Endpoint.CHAT, body) for scheme in schemes]
    found.append(SCHEME.phrasing(make_namespace("other"), Endpoint.CHAT, body))
    found.append(SCHEME.phrasing(TENANT, Endpoint.CHAT, body, query="x=1"))
    found.append(SCHEME.phrasing(TENANT, Endpoint.CHAT, body, headers=(("openai-beta", "x"),)))
    assert len({one.partition for one in found if one is not None}) == len(found)


def test_a_partition_is_no_key() -> None:
    """Not even of the request that says what stands in the text's place."""
    contents: list[Any] = [{}, "", None]
    keys = {SCHEME.key(TENANT, Endpoint.CHAT, chat(content)) for content in contents}
    assert partition(chat()) not in keys


def test_words_are_normalised_as_for_the_key() -> None:
    """So that equal keys have equal words."""
    found = phrasing(chat("  How do I return it?\r\n"))
    assert found is not None
    assert found.text == "How do I return it?"


@pytest.mark.parametrize(
    ("dialect", "given", "expected"),
    [
        (Dialect.OPENAI, {}, 1.0),
        (Dialect.OPENAI, {"temperature": None}, 1.0),
        (Dialect.OPENAI, {"temperature": 0}, 0.0),
        (Dialect.ENGINE, {}, None),
        (Dialect.ENGINE, {"temperature": 1}, 1.0),
    ],
)
def test_temperature(dialect: Dialect, given: dict[str, Any], expected: float | None) -> None:
    """OpenAI documents its default; an engine's comes with the model."""
    scheme = KeyScheme("upstream", KeyRules(dialect=dialect))
    found = phrasing(chat(**given), scheme=scheme)
    assert found is not None
    assert found.temperature == expected


def test_responses() -> None:
    """Input as a string, and as items that end with the user's."""
    item = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    for turns in ("Hi", [item]):
        found = phrasing({"model": "m", "input": turns}, Endpoint.RESPONSES)
        assert found is not None
        assert found.text == "Hi"
    other = {"model": "m", "input": "Ho", "instructions": "Be brief."}
    assert partition({"model": "m", "input": "Hi"}, Endpoint.RESPONSES) != partition(
        other, Endpoint.RESPONSES
    )


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.COMPLETIONS, {"model": "m", "prompt": "Once upon a time"}),
        (Endpoint.CHAT, {"model": "m", "messages": []}),
        (Endpoint.CHAT, {"model": "m", "messages": "hi"}),
        (Endpoint.CHAT, {"model": "m", "messages": [{"role": "system", "content": "hi"}]}),
        (Endpoint.CHAT, chat() | {"temperature": "warm"}),
        (Endpoint.CHAT, chat() | {"temperature": True}),
        (Endpoint.CHAT, chat([IMAGE])),
        (Endpoint.CHAT, chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        (Endpoint.CHAT, chat([{"type": "text", "text": {}}, {"type": "text", "text": "b"}])),
        (Endpoint.CHAT, chat({"type": "text", "text": "a"})),
        (
            Endpoint.CHAT,
            {
                "model": "m",
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "tool", "content": "42", "tool_call_id": "1"},
                ],
            },
        ),
    ],
)
def test_no_words_that_may_be_put_otherwise(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """A prompt that is continued, a turn that is not the user's, more texts than one."""
    assert phrasing(body, endpoint) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "temperature", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(value=_JSON, endpoint=st.sampled_from(Endpoint))
def test_never_raises(value: Any, endpoint: Endpoint) -> None:
    """Whatever a stranger sends."""
    take_phrase(endpoint, {"messages": value, "input": value, "temperature": value})
    take_phrase(endpoint, {"messages": [value], "input": [value]})
    turn = {"role": "user", "content": value}
    take_phrase(endpoint, {"messages": [turn], "input": [turn]})


@given(one=_JSON, other=_JSON)
def test_equal_partitions_mean_equal_rests(one: Any, other: Any) -> None:
    """Two requests of one partition are the same request once their words are exchanged."""
    first, second = phrasing(chat(one)), phrasing(chat(other))
    if first is None or second is None or first.partition != second.partition:
        return
    assert SCHEME.key(TENANT, Endpoint.CHAT, chat(swap(one, "x"))) == SCHEME.key(
        TENANT, Endpoint.CHAT, chat(swap(other, "x"))
    )


def swap(content: Any, text: str) -> Any:
    if isinstance(content, str):
        return text
    return [
        {**part, "text": text}
        if isinstance(part, dict) and isinstance(part.get("text"), str) and part["type"] == "text"
        else part
        for part in content
    ]
