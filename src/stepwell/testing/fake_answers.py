"""What the fake upstream answers: a function of the request, in OpenAI's exact shapes."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CREATED = 1_700_000_000
"""Every answer's time, so that equal requests give equal bytes."""

_HOW_NOT_WHAT = frozenset({"stream", "stream_options"})
"""Members that say how an answer is sent; they do not change it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is written down. Its pieces joined are its text."""

    id: str
    """SHA-256 of what was asked, shortened: tells which request an answer belongs to."""
    model: str
    choices: tuple[tuple[str, ...], ...]
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int = 0

    @property
    def completion_tokens(self) -> int:
        """One token for each piece."""
        return sum(map(len, self.choices))


def answer_to(
    body: Mapping[str, Any],
    *,
    words: int | None = None,
    text: str | None = None,
    finish_reason: str = "stop",
) -> Answer:
    """Answer a chat, completions or responses request.

    The text is ``[id] echo: `` and the prompt's last text, so both which request an answer
    belongs to and that it is whole can be read from it. With ``text`` it is that; with ``words``,
    it is that many numbered words.
    """
    prompt = last_text(body.get("messages") or body.get("prompt") or body.get("input") or "")
    asked = {name: body[name] for name in sorted(body) if name not in _HOW_NOT_WHAT}
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
    count = body.get("n") or 1
    return Answer(
        id=digest,
        model=str(body.get("model", "")),
        choices=tuple(
            tuple(
                _words(text or f"[{digest}{f'/{index}' if index else ''}] echo: {prompt}")
                if words is None
                else (f"word{number} " for number in range(words))
            )
            for index in range(count)
        ),
        finish_reason=finish_reason,
        prompt_tokens=max(1, len(prompt.split())),
    )


def chat_json(answer: Answer) -> dict[str, Any]:
    """Write an answer of ``/chat/completions``."""
    return {
        **_chat_head(answer, "chat.completion"),
        "choices": [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": "".join(pieces),
                    "refusal": None,
                    "annotations": [],
                },
                "logprobs": None,
                "finish_reason": answer.finish_reason,
            }
            for index, pieces in enumerate(answer.choices)
        ],
        "usage": _usage(answer),
    }


def chat_events(answer: Answer) -> Iterator[dict[str, Any]]:
    """Write a stream of ``/chat/completions``, without usage."""
    head = _chat_head(answer, "chat.completion.chunk")

    def event(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    for index, pieces in enumerate(answer.choices):
        yield event(index, {"role": "assistant", "content": "", "refusal": None})
        for piece in pieces:
            yield event(index, {"content": piece})
        yield event(index, {}, answer.finish_reason)


def completions_json(answer: Answer) -> dict[str, Any]:
    """Write an answer of ``/completions``."""
    return {
        **_completions_head(answer),
        "choices": [
            _completions_choice(index, "".join(pieces), answer.finish_reason)
            for index, pieces in enumerate(answer.choices)
        ],
        "usage": _usage(answer),
    }


def completions_events(answer: Answer) -> Iterator[dict[str, Any]]:
    """Write a stream of ``/completions``, without usage."""
    head = _completions_head(answer)
    for index, pieces in enumerate(answer.choices):
        for piece in pieces:
            yield {**head, "choices": [_completions_choice(index, piece, None)]}
        yield {**head, "choices": [_completions_choice(index, "", answer.finish_reason)]}


def with_usage(
    answer: Answer, events: Iterable[dict[str, Any]], *, null_until_last: bool
) -> Iterator[dict[str, Any]]:
    """Add what ``stream_options.include_usage`` asks for.

    OpenAI gives every event ``"usage": null`` and a last one, without choices, the numbers;
    vLLM and others leave the nulls out.
    """
    head: dict[str, Any] = {}
    for event in events:
        head = event
        yield {**event, "usage": None} if null_until_last else event
    yield {**head, "choices": [], "usage": _usage(answer)}


def responses_json(answer: Answer, *, begun: bool = False) -> dict[str, Any]:
    """Write an answer of ``/responses``; one only ``begun`` has neither output nor usage yet."""
    cut = answer.finish_reason == "length"
    usage = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress" if begun else _responses_status(answer),
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut and not begun else None,
        "model": answer.model,
        "output": [] if begun else [_responses_message(answer)],
        "parallel_tool_calls": True,
        "usage": None if begun else usage,
    }


def responses_events(answer: Answer) -> Iterator[dict[str, Any]]:
    """Write a stream of ``/responses``; each event's ``type`` is also its SSE event name."""
    for number, event in enumerate(_responses_events(answer)):
        yield {"type": event["type"], "sequence_number": number, **event}


def models_json(models: Iterable[str]) -> dict[str, Any]:
    """Write an answer of ``/models``."""
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": CREATED, "owned_by": "stepwell"}
            for name in models
        ],
    }


def error_json(status: int, message: str) -> dict[str, Any]:
    """Write an error as OpenAI does."""
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004  (5xx)
    return {"error": {"message": message, "type": kind, "param": None, "code": f"fake_{status}"}}


@dataclass(frozen=True, slots=True)
class Writer:
    """How the answers of one operation are written."""

    whole: Callable[[Answer], dict[str, Any]]
    events: Callable[[Answer], Iterator[dict[str, Any]]]
    typed_events: bool = False
    """Events carry their own type, as SSE event name too, and no ``[DONE]`` ends them."""


WRITERS: Mapping[str, Writer] = {
    "chat/completions": Writer(chat_json, chat_events),
    "completions": Writer(completions_json, completions_events),
    "responses": Writer(responses_json, responses_events, typed_events=True),
}
"""Writers by the operation's path below ``/v1``."""


def _chat_head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": CREATED,
        "model": answer.model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _completions_head(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"cmpl-{answer.id}",
        "object": "text_completion",
        "created": CREATED,
        "model": answer.model,
        "system_fingerprint": "fp_fake",
    }


def _completions_choice(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _responses_status(answer: Answer) -> str:
    return "incomplete" if answer.finish_reason == "length" else "completed"


def _responses_message(answer: Answer, *, begun: bool = False) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "status": "in_progress" if begun else _responses_status(answer),
        "role": "assistant",
        "content": [] if begun else [_responses_part("".join(answer.choices[0]))],
    }


def _responses_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _responses_events(answer: Answer) -> Iterator[dict[str, Any]]:
    text = "".join(answer.choices[0])
    response = responses_json(answer, begun=True)
    output = {"output_index": 0}
    part = {"item_id": f"msg_{answer.id}", **output, "content_index": 0}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    message = _responses_message(answer, begun=True)
    yield {"type": "response.output_item.added", **output, "item": message}
    yield {"type": "response.content_part.added", **part, "part": _responses_part("")}
    for piece in answer.choices[0]:
        yield {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **part, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **part, "part": _responses_part(text)}
    yield {"type": "response.output_item.done", **output, "item": _responses_message(answer)}
    yield {"type": f"response.{_responses_status(answer)}", "response": responses_json(answer)}


def last_text(prompt: object) -> str:
    """Return the last text in a prompt of any of OpenAI's shapes."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and prompt:
        return last_text(prompt[-1])
    if isinstance(prompt, dict):
        return last_text(prompt.get("content") or prompt.get("text") or "")
    return str(prompt) if prompt else ""


def _words(text: str) -> Iterator[str]:
    """Split after each space; the pieces joined are the text."""
    head, space, rest = text.partition(" ")
    while space:
        yield head + space
        head, space, rest = rest.partition(" ")
    yield head
