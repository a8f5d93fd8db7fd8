"""A request whose prompt begins as that of a conversation's next turn will."""

from typing import Any

import orjson

from stepwell.core.entry import Answer
from stepwell.core.names import Form
from stepwell.wire import chat
from stepwell.wire.chunks import JsonObject, UnreadableAnswer, mapping, objects

_OF_THE_PROMPT = (
    "model",
    "tools",
    "functions",
    "chat_template",
    "chat_template_kwargs",
    "prompt_cache_key",
    "cache_salt",
)
"""Members of a chat request that change its prompt, or where that is found again."""

_OF_THE_MESSAGE = ("role", "content", "tool_calls", "refusal", "name")

NOT_SAID_YET = {"role": "user", "content": "."}
"""Stands for what the user will say: templates mark the end of an answer by what follows it."""


def next_turn(body: bytes, answer: Answer) -> bytes | None:
    """Return a request that makes a model server read a conversation up to its last answer.

    It asks for one token, the least there is.

    Args:
        body: The chat request that was answered.
        answer: What was answered.

    Returns:
        ``None`` where there is no one next turn: several answers, one that cannot be read.
    """
    try:
        asked = mapping(orjson.loads(body))
        choices = objects(_answered(answer).get("choices"))
    except (UnreadableAnswer, orjson.JSONDecodeError):
        return None
    messages = asked.get("messages")
    if len(choices) != 1 or not isinstance(messages, list):
        return None
    said = mapping(choices[0].get("message"))
    if not (said.get("content") or said.get("tool_calls")):
        return None
    turn = {name: said[name] for name in _OF_THE_MESSAGE if said.get(name) is not None}
    after = [] if "tool_calls" in turn else [NOT_SAID_YET]
    kept: dict[str, Any] = {name: asked[name] for name in _OF_THE_PROMPT if name in asked}
    return orjson.dumps(
        {**kept, "messages": [*messages, turn, *after], "max_tokens": 1, "temperature": 0}
    )


def _answered(answer: Answer) -> JsonObject:
    if answer.form is Form.SSE:
        return chat.assemble(answer.body)
    return mapping(orjson.loads(answer.body))
