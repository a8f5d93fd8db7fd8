"""What stands for a prompt's tokens where nobody can name them.

The text in the order in which chat templates write it, four bytes to a token. Two prompts share
about as much of it as of their real tokens, which is all that a choice between replicas needs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from stepwell.core.kv import TOKEN_BYTES, Tokens
from stepwell.core.names import Endpoint

_AHEAD = ("tools", "functions", "instructions")
"""Members that templates write before the conversation."""

_CONVERSATION = {
    Endpoint.CHAT: "messages",
    Endpoint.COMPLETIONS: "prompt",
    Endpoint.RESPONSES: "input",
}


def text_tokens(endpoint: Endpoint, body: Mapping[str, Any]) -> Tokens:
    """Return the prompt's text as if each four bytes were a token, filled up with spaces.

    English has about four bytes to a token, Chinese about three. Costs some us for 1 KB.

    Args:
        endpoint: The operation.
        body: The parsed request.
    """
    text = b"".join(_parts(endpoint, body))
    return Tokens(text.ljust(-(-len(text) // TOKEN_BYTES) * TOKEN_BYTES))


def _parts(endpoint: Endpoint, body: Mapping[str, Any]) -> Iterator[bytes]:
    for name in _AHEAD:
        if body.get(name):
            yield orjson.dumps(body[name])
    conversation = body.get(_CONVERSATION[endpoint])
    if isinstance(conversation, str):
        yield conversation.encode()
        return
    # Item by item: what closes a list would differ from what goes on.
    for item in conversation if isinstance(conversation, list) else ():
        yield orjson.dumps(item)
