"""Laws of the cache key."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import Endpoint, Namespace
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.canonical import Dialect, KeyRules
from stepwell.keys.namespace import namespace_of
from stepwell.keys.parts import join_parts

GOLDEN = Path(__file__).with_name("golden_keys.json")
SECRET = bytes(range(32))
TENANT = namespace_of(SECRET, "token:sk-test")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts}
    ),
    min_size=1,
    max_size=4,
)
bodies = st.builds(
    lambda extra, messages: {**extra, "model": "m", "messages": messages},
    st.dictionaries(texts, values, max_size=4),
    messages,
)


def key(body: dict[str, Any], scheme: KeyScheme | None = None, **kwargs: Any) -> bytes:
    scheme = scheme or KeyScheme("upstream")
    return scheme.key(kwargs.pop("namespace", TENANT), Endpoint.CHAT, body, **kwargs)


def shuffled(value: Any) -> Any:
    """The same JSON with every object's members the other way round."""
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(body=bodies)
def test_member_order_does_not_matter(body: dict[str, Any]) -> None:
    """An object is a set of members (RFC 8259, 4)."""
    assert key(shuffled(body)) == key(body)


@given(body=bodies)
def test_spelling_of_json_does_not_matter(body: dict[str, Any]) -> None:
    """Escapes, blanks and a trip over the wire change nothing."""
    assert key(json.loads(json.dumps(body, ensure_ascii=True, indent=3))) == key(body)


@given(body=bodies, name=texts, value=values)
def test_another_field_is_another_request(body: dict[str, Any], name: str, value: Any) -> None:
    """Whatever it is called, and whatever it says."""
    body.pop(f"new {name}", None)
    assert key({**body, f"new {name}": value}) != key(body)


@given(body=bodies, other=bodies)
def test_messages_that_differ_are_other_requests(
    body: dict[str, Any], other: dict[str, Any]
) -> None:
    """Order, roles and every word count (assistant texts to the last blank)."""
    strict = KeyScheme("upstream", KeyRules(text_steps=()))
    same = body["messages"] == other["messages"]
    assert (key(body, strict) == key({**body, "messages": other["messages"]}, strict)) == same


BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

DIFFERENT: dict[str, Callable[[], bytes]] = {
    "base": lambda: key(BODY),
    "namespace": lambda: key(BODY, namespace=namespace_of(SECRET, "token:sk-other")),
    "sub-namespace": lambda: key(BODY, namespace=namespace_of(SECRET, "token:sk-test", "a")),
    "upstream": lambda: key(BODY, KeyScheme("upstream2")),
    "dialect": lambda: key(BODY, KeyScheme("upstream", KeyRules(dialect=Dialect.ENGINE))),
    "text steps": lambda: key(BODY, KeyScheme("upstream", KeyRules(text_steps=()))),
    "endpoint": lambda: KeyScheme("upstream").key(TENANT, Endpoint.RESPONSES, BODY),
    "header": lambda: key(BODY, headers=(("openai-beta", "x"),)),
    "header parts": lambda: key(BODY, headers=(("openai-betax", ""),)),
    "query": lambda: key(BODY, query="api-version=1"),
    "model": lambda: key({**BODY, "model": "m2"}),
    "role": lambda: key({**BODY, "messages": [{"role": "system", "content": "hi"}]}),
    "image": lambda: key(
        {**BODY, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}
    ),
    "tool order": lambda: key({**BODY, "tools": [{"type": "a"}, {"type": "b"}]}),
    "tools": lambda: key({**BODY, "tools": [{"type": "b"}, {"type": "a"}]}),
}


def test_every_part_of_a_request_is_in_the_key() -> None:
    """No two of these share a key."""
    keys = {name: make() for name, make in DIFFERENT.items()}
    assert len(set(keys.values())) == len(keys)


@given(
    parts=st.lists(st.binary(max_size=12), max_size=4),
    others=st.lists(st.binary(max_size=12), max_size=4),
)
def test_nothing_collides_by_concatenation(parts: list[bytes], others: list[bytes]) -> None:
    """Joined parts are equal only if the parts are."""
    assert (join_parts(parts) == join_parts(others)) == (parts == others)


@given(
    one=st.tuples(texts, texts),
    other=st.tuples(texts, texts),
)
def test_namespaces_are_equal_only_for_equal_tenants(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """A tenant's text cannot be moved into its sub-namespace."""
    assert (namespace_of(SECRET, *one) == namespace_of(SECRET, *other)) == (one == other)


def test_namespaces_depend_on_the_secret() -> None:
    """Who does not know the secret cannot test a guess."""
    assert namespace_of(SECRET, "a") != namespace_of(bytes(32), "a")


def golden_keys() -> dict[str, str]:
    cases = json.loads(GOLDEN.read_text())
    return {
        name: KeyScheme(case["upstream"])
        .key(Namespace(bytes.fromhex(case["namespace"])), Endpoint(case["endpoint"]), case["body"])
        .hex()
        for name, case in cases.items()
    }


@pytest.mark.parametrize("name", json.loads(GOLDEN.read_text()))
def test_golden_keys(name: str) -> None:
    """A key never changes by accident: a change here needs another `KEY_SCHEMA`."""
    assert golden_keys()[name] == json.loads(GOLDEN.read_text())[name]["key"]


def test_keys_are_the_same_in_every_process() -> None:
    """Whatever the process's hash seed is."""
    code = (
        "import json,sys; from stepwell.keys.cache_key import KeyScheme;"
        "from stepwell.keys.namespace import namespace_of;"
        "from stepwell.core.names import Endpoint;"
        "n = namespace_of(bytes(range(32)), 'token:sk-test');"
        "print(KeyScheme('upstream').key(n, Endpoint.CHAT, json.loads(sys.argv[1])).hex())"
    )
    body = {**BODY, "logit_bias": {str(i): i for i in range(20)}}
    seen = {
        subprocess.run(
            [sys.executable, "-c", code, json.dumps(body)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert seen == {key(body).hex()}
