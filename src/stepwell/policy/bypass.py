"""Requests no layer may answer: what they ask for lies outside the request.

The cache key is the whole request. Where the answer also depends on something the server keeps
(a conversation, an index, the web), equal requests have different answers; where the request
makes the server do something, an answer from the cache would leave it undone. In doubt a
request is passed on: that costs a hit, the other mistake costs a wrong answer.
"""

from collections.abc import Mapping
from typing import Any, Final

from stepwell.core.names import Endpoint

_SERVER_STATE: Final[Mapping[Endpoint, tuple[str, ...]]] = {
    Endpoint.CHAT: (
        # The model searches the web before it answers.
        "web_search_options",
        # The same in other servers' words: xAI; DashScope (Qwen); OpenRouter, whose plugins
        # also read files.
        "search_parameters",
        "enable_search",
        "plugins",
        # The caller wants this very exchange kept on the server, for evaluation or training.
        "store",
        # vLLM: a hand-over of KV blocks between two servers, good for one use.
        "kv_transfer_params",
    ),
    Endpoint.COMPLETIONS: ("kv_transfer_params",),
    Endpoint.RESPONSES: (
        # Only starts a task: the answer is a ticket, and asking again starts another.
        "background",
        # The server adds earlier turns and appends the new one.
        "conversation",
        # The server adds earlier turns, which it may have dropped meanwhile.
        "previous_response_id",
        "kv_transfer_params",
    ),
}
"""Fields that make a request depend on the server, or change it, unless null or false. An empty
object switches ``web_search_options`` on, so emptiness is no excuse. ``store`` of a response is
not here: it is on by default, and what was stored is reached by the answer's own id."""

_OWN_TOOLS = ("function", "custom")
"""Tools the caller runs itself. Every other type runs on the server: web search, file search,
code interpreter, computer use, image generation, MCP, shells, and what is invented next."""


def bypass_reason(endpoint: Endpoint, body: Mapping[str, Any]) -> str | None:
    """Return why no layer may be asked or filled for this request, or ``None``.

    The reason is the name of a field, ``hosted_tool``, ``prompt_version``, ``audio_id`` or
    ``item_reference``: a closed set, safe in a header and as a metric label.

    Never raises, whatever the shape of ``body``. Costs a look-up per field in the table, and a
    pass over tools and input items.
    """
    for field in _SERVER_STATE[endpoint]:
        if body.get(field) not in (None, False):
            return field
    if endpoint is Endpoint.COMPLETIONS:
        return None
    if _has_hosted_tool(body.get("tools")):
        return "hosted_tool"
    if endpoint is Endpoint.CHAT:
        return _chat_reason(body)
    return _response_reason(body)


def _chat_reason(body: Mapping[str, Any]) -> str | None:
    # A spoken answer carries the id of a recording the server drops after a while, for use in
    # the next turn.
    modalities = body.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        return "audio_id"
    return None


def _response_reason(body: Mapping[str, Any]) -> str | None:
    # A prompt kept on the server; without a version, whichever is current.
    prompt = body.get("prompt")
    if prompt is not None and not (isinstance(prompt, dict) and prompt.get("version")):
        return "prompt_version"
    items = body.get("input")
    if isinstance(items, list) and (any(map(_is_reference, items))):
        return "item_reference"
    return None


def _is_reference(item: object) -> bool:
    # The type may be left out: then an item with an id and no content is one.
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and "content" not in item)


def _has_hosted_tool(tools: object) -> bool:
    if tools is None:
        return False
    if not isinstance(tools, list):
        return True  # A shape we do not know may be a server's own.
    return not all(isinstance(tool, dict) and tool.get("type") in _OWN_TOOLS for tool in tools)
