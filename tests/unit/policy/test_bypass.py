"""Which requests no layer may answer."""

from typing import Any

import pytest

from stepwell.core.names import Endpoint
from stepwell.policy.bypass import bypass_reason

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
RESPONSE: dict[str, Any] = {"model": "m", "input": "Hello"}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "Hello"}
PLAIN = {Endpoint.CHAT: CHAT, Endpoint.RESPONSES: RESPONSE, Endpoint.COMPLETIONS: COMPLETION}
OWN_TOOLS = [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "name": "g"}]

FIELDS = [
    (Endpoint.CHAT, "web_search_options", {}),
    (Endpoint.CHAT, "search_parameters", {"mode": "auto"}),
    (Endpoint.CHAT, "enable_search", True),
    (Endpoint.CHAT, "plugins", [{"id": "web"}]),
    (Endpoint.CHAT, "store", True),
    (Endpoint.CHAT, "kv_transfer_params", {"do_remote_decode": True}),
    (Endpoint.COMPLETIONS, "kv_transfer_params", {"do_remote_decode": True}),
    (Endpoint.RESPONSES, "background", True),
    (Endpoint.RESPONSES, "conversation", "conv_1"),
    (Endpoint.RESPONSES, "conversation", {"id": "conv_1"}),
    (Endpoint.RESPONSES, "previous_response_id", "resp_1"),
    (Endpoint.RESPONSES, "kv_transfer_params", {"do_remote_decode": True}),
]


@pytest.mark.parametrize("endpoint", Endpoint)
def test_plain_request_is_not_passed_on(endpoint: Endpoint) -> None:
    """A request that holds all it depends on may be answered by a layer."""
    assert bypass_reason(endpoint, PLAIN[endpoint]) is None


@pytest.mark.parametrize(("endpoint", "field", "value"), FIELDS)
def test_field_that_reaches_outside(endpoint: Endpoint, field: str, value: object) -> None:
    """A field by which the server adds or keeps something makes the request pass on."""
    assert bypass_reason(endpoint, PLAIN[endpoint] | {field: value}) == field


@pytest.mark.parametrize("off", [None, False])
@pytest.mark.parametrize(("endpoint", "field", "_value"), FIELDS)
def test_field_that_is_switched_off(
    endpoint: Endpoint, field: str, _value: object, off: object
) -> None:
    """Null and false switch such a field off."""
    assert bypass_reason(endpoint, PLAIN[endpoint] | {field: off}) is None


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES])
def test_tools_of_the_caller(endpoint: Endpoint) -> None:
    """Tools that the caller runs itself depend on nothing outside the request."""
    assert bypass_reason(endpoint, PLAIN[endpoint] | {"tools": OWN_TOOLS}) is None
    assert bypass_reason(endpoint, PLAIN[endpoint] | {"tools": []}) is None
    assert bypass_reason(endpoint, PLAIN[endpoint] | {"tools": None}) is None


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search", "web_search_preview_2025_03_11", "file_search", "code_interpreter"),
        *(
            "computer_use_preview",
            "image_generation",
            "mcp",
            "local_shell",
            "of_tomorrow",
            None,
            [],
        ),
    ],
)
@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES])
def test_hosted_tool(endpoint: Endpoint, kind: object) -> None:
    """One tool of any other type, known or not, makes the request pass on."""
    tools = [*OWN_TOOLS, {"type": kind}]
    assert bypass_reason(endpoint, PLAIN[endpoint] | {"tools": tools}) == "hosted_tool"


@pytest.mark.parametrize("tools", ["web", {"type": "function"}, 1, [None], ["web"], [{}]])
def test_tools_that_cannot_be_read(tools: object) -> None:
    """Tools of a shape nobody has described may be a server's own."""
    assert bypass_reason(Endpoint.RESPONSES, RESPONSE | {"tools": tools}) == "hosted_tool"


def test_spoken_answer() -> None:
    """A spoken answer holds an id that the server forgets."""
    spoken = CHAT | {"modalities": ["text", "audio"]}
    assert bypass_reason(Endpoint.CHAT, spoken) == "audio_id"
    assert bypass_reason(Endpoint.CHAT, CHAT | {"modalities": ["text"]}) is None


def test_prompt_kept_on_the_server() -> None:
    """A stored prompt changes under its id unless its version is given."""
    current = RESPONSE | {"prompt": {"id": "pmpt_1"}}
    pinned = RESPONSE | {"prompt": {"id": "pmpt_1", "version": "3"}}
    assert bypass_reason(Endpoint.RESPONSES, current) == "prompt_version"
    assert bypass_reason(Endpoint.RESPONSES, pinned) is None


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_reference_to_an_item(item: dict[str, Any]) -> None:
    """An item that only names another one depends on what the server kept."""
    body = RESPONSE | {"input": [{"role": "user", "content": "And now?"}, item]}
    assert bypass_reason(Endpoint.RESPONSES, body) == "item_reference"


def test_stored_response_is_not_passed_on() -> None:
    """Responses are stored by default; that alone does not make each of them different."""
    assert bypass_reason(Endpoint.RESPONSES, RESPONSE | {"store": True}) is None


def test_fields_mean_something_only_where_they_belong() -> None:
    """A completion's prompt is its text, and chat has no conversation on the server."""
    assert bypass_reason(Endpoint.COMPLETIONS, COMPLETION | {"background": True}) is None
    assert bypass_reason(Endpoint.CHAT, CHAT | {"conversation": "x"}) is None
