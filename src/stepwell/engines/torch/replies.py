"""Answers in OpenAI's shapes."""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from stepwell.engines.torch.answerer import Ended, Usage

Kind = Literal["chat", "text"]

_OBJECTS: dict[Kind, tuple[str, str, str]] = {
    "chat": ("chatcmpl", "chat.completion", "chat.completion.chunk"),
    "text": ("cmpl", "text_completion", "text_completion"),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How one answer is written."""

    kind: Kind
    model: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, ended: Ended) -> dict[str, Any]:
        """Return an answer that is not streamed."""
        said: dict[str, Any]
        if self.kind == "chat":
            said = {"message": {"role": "assistant", "content": text}}
        else:
            said = {"text": text}
        choice = {"index": 0, **said, "finish_reason": ended.reason, "logprobs": None}
        return {**self._head(_OBJECTS[self.kind][1]), "choices": [choice], "usage": _usage(ended)}

    def first(self) -> dict[str, Any] | None:
        """Return the chunk a stream begins with, if it does."""
        if self.kind == "text":
            return None
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def piece(self, text: str) -> dict[str, Any]:
        """Return a chunk with some text."""
        said = {"delta": {"content": text}} if self.kind == "chat" else {"text": text}
        return self._chunk(said, None)

    def last(self, ended: Ended) -> dict[str, Any]:
        """Return the chunk that says how an answer ended."""
        said: dict[str, Any] = {"delta": {}} if self.kind == "chat" else {"text": ""}
        return self._chunk(said, ended.reason)

    def usage(self, ended: Ended) -> dict[str, Any]:
        """Return the chunk that says what an answer took."""
        return {**self._head(_OBJECTS[self.kind][2]), "choices": [], "usage": _usage(ended)}

    def _chunk(self, said: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **said, "finish_reason": reason, "logprobs": None}
        return {**self._head(_OBJECTS[self.kind][2]), "choices": [choice]}

    def _head(self, name: str) -> dict[str, Any]:
        prefix = _OBJECTS[self.kind][0]
        return {
            "id": f"{prefix}-{self.id}",
            "object": name,
            "created": self.created,
            "model": self.model,
        }


def _usage(ended: Ended) -> dict[str, Any]:
    usage: Usage = ended.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
