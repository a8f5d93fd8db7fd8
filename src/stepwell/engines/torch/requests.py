"""What a caller may ask, checked."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from stepwell.core.errors import RequestError
from stepwell.core.names import Namespace
from stepwell.engines.torch.sampling import Sampling

_MOST_TOKENS = 1 << 31

Text = Annotated[str, Meta(max_length=16 << 20)]
Stop = Annotated[str, Meta(min_length=1, max_length=256)]
Tokens = Annotated[int, Meta(ge=1, le=_MOST_TOKENS)]
Salt = Annotated[str, Meta(min_length=1, max_length=1024)]

_NEUTRAL: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
}
"""What this engine cannot do, and the values that do not ask for it."""


_MAY_BE_SILENT = "assistant"


class Part(msgspec.Struct, tag_field="type", tag="text", frozen=True):
    """A part of a message's content."""

    text: Text


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Annotated[str, Meta(min_length=1, max_length=64)]
    content: Text | tuple[Part, ...] | None = None
    """An assistant's may be missing: it called tools then, which the model here does not see."""

    def __post_init__(self) -> None:
        if self.content is None and self.role != _MAY_BE_SILENT:
            raise ValueError(f"a message of the role {self.role!r} needs content")

    def plain(self) -> dict[str, str]:
        """Return it as a chat template takes it."""
        content = self.content or ""
        if not isinstance(content, str):
            content = "".join(part.text for part in content)
        return {"role": self.role, "content": content}


def tenant_of(salt: str | None) -> Namespace | None:
    """Return whose prompts a salt is for; ``None``: everybody's."""
    if salt is None:
        return None
    return Namespace(blake2b(salt.encode(), digest_size=16).digest())


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream is to hold."""

    include_usage: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What both kinds of request have in common."""

    model: str
    max_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | None = None
    stop: Stop | Annotated[tuple[Stop, ...], Meta(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: Salt | None = None
    """Whose prompt it is: what is kept for one salt is used for no other."""

    @property
    def tenant(self) -> Namespace | None:
        """Whose prompt it is."""
        return tenant_of(self.cache_salt)

    @property
    def with_usage(self) -> bool:
        """Whether a stream ends with what it took."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatAsked(Asked, frozen=True, kw_only=True):
    """``/v1/chat/completions``."""

    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]
    max_completion_tokens: Tokens | None = None


class TextAsked(Asked, frozen=True, kw_only=True):
    """``/v1/completions``."""

    prompt: Text | tuple[int | Text, ...]


class TokensAsked(msgspec.Struct, frozen=True, kw_only=True):
    """``/tokenize``: one of ``prompt`` and ``messages``."""

    model: str | None = None
    prompt: Text | None = None
    messages: tuple[Message, ...] | None = None
    cache_salt: Salt | None = None


class HoldAsked(msgspec.Struct, frozen=True, kw_only=True):
    """``/hold``: a prompt whose beginning is to be computed, and kept for a time."""

    model: str
    messages: Annotated[tuple[Message, ...], Meta(min_length=1)]
    ttl_seconds: Annotated[float, Meta(ge=0, le=366 * 86_400)]
    """How long it does not leave; 0: it is computed and kept like any other."""
    cache_salt: Salt | None = None
    """Whose prompt it is; without one, it is public: all may go on from it."""


Body = TypeVar("Body")


def read(body: bytes, kind: type[Body]) -> Body:
    """Return a body as what was asked.

    Raises:
        RequestError: It is not JSON, has a value of another type or out of range, or asks for what
            this engine cannot do. The message names the member.
    """
    try:
        asked = msgspec.json.decode(body, type=kind)
        members: dict[str, Any] = msgspec.json.decode(body)
    except msgspec.ValidationError as error:
        raise RequestError(str(error), param=_member(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON: {error}", code="invalid_json") from error
    for name, neutral in _NEUTRAL.items():
        value = members.get(name)
        if value is not None and value not in neutral:
            raise RequestError(
                f"this engine does not support {name}", code="unsupported_parameter", param=name
            )
    return asked


def sampling_of(asked: Asked, max_tokens: int | None, default_tokens: int) -> Sampling:
    """Return how an answer is to be generated."""
    stop: Sequence[str] = (asked.stop,) if isinstance(asked.stop, str) else asked.stop or ()
    return Sampling(
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_p=1.0 if asked.top_p is None else asked.top_p,
        seed=asked.seed,
        max_tokens=max_tokens or default_tokens,
        stop=tuple(stop),
    )


def _member(message: str) -> str | None:
    """Return the member that msgspec's message names, as in ``... - at `$.messages[0].role```."""
    _, _, path = message.partition("- at `$.")
    return path.rstrip("`") or None
