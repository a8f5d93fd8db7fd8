"""``POST /v1/embeddings``: what is asked, as values; see `embedding_replies` for what is answered.

https://platform.openai.com/docs/api-reference/embeddings. vLLM, llama.cpp, TEI and others take the
same body, and more. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from stepwell.core.errors import RequestError

MAX_DIMENSIONS = 65_536
"""Width that can be asked for."""

MAX_TOKEN = 2**32 - 1
"""Number of a token; no vocabulary comes near."""

Tokens = tuple[int, ...]
"""A text by its tokens in the model's vocabulary."""


class Encoding(StrEnum):
    """How the numbers of a vector are written."""

    FLOAT = "float"
    """A list of JSON numbers."""
    BASE64 = "base64"
    """32-bit floats, little-endian, in base64 (RFC 4648, 4)."""


@dataclass(frozen=True, slots=True)
class EmbeddingsRequest:
    """A request whose vectors can be kept text by text."""

    model: str
    inputs: tuple[str | Tokens, ...]
    """At least one; all texts, or all tokens."""
    is_batch: bool
    """Whether they came as a list. One by itself is sent on by itself."""
    encoding: Encoding
    dimensions: int | None
    rest: Mapping[str, Any]
    """The body without ``input``, as it is sent on."""
    parameters: str
    """Fields that nobody here knows, and that may change a vector; canonical JSON, or empty."""


@dataclass(frozen=True, slots=True)
class ForeignRequest:
    """A request that is sent on as it is: it asks for something that OpenAI's API has not."""

    model: str
    reason: str
    """Why; for ``X-Stepwell-Bypass``."""


_UNKEYED = frozenset(
    {
        *("model", "input", "encoding_format", "dimensions"),
        *("user", "safety_identifier"),
        *("cache_salt", "priority", "request_id"),  # vLLM's
    }
)
"""Fields with a place of their own in a kind, and those that change no vector."""


def read_embeddings_request(
    body: Mapping[str, Any], *, max_inputs: int
) -> EmbeddingsRequest | ForeignRequest:
    """Return what a parsed body asks for. Costs a microsecond, and 0.1 for each input.

    An empty text is a text: what it comes to is for the model server to say.

    Args:
        body: As `stepwell.wire.body.parse_body` returns it, without what was meant for us.
        max_inputs: Longest list of inputs.

    Raises:
        RequestError: 400; names the field, its value and what is allowed.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise _wrong("model", model, "a string that is not empty")
    dimensions = _dimensions(body.get("dimensions"))
    given = body.get("input")
    if given is None:
        return ForeignRequest(model, "no input")
    if _has_objects(given):
        return ForeignRequest(model, "input is no text")
    encoding = body.get("encoding_format")
    if isinstance(encoding, str) and encoding not in _ENCODINGS:
        return ForeignRequest(model, "another encoding")
    if encoding is not None and not isinstance(encoding, str):
        raise _wrong("encoding_format", encoding, "'float' or 'base64'")
    is_batch = isinstance(given, list) and not _is_integer(given[0] if given else None)
    return EmbeddingsRequest(
        model=model,
        inputs=_inputs(given, max_inputs) if is_batch else (_one(given, "input"),),
        is_batch=is_batch,
        encoding=Encoding(encoding or Encoding.FLOAT),
        dimensions=dimensions,
        rest={name: value for name, value in body.items() if name != "input"},
        parameters=_parameters(body),
    )


def write_embeddings_request(request: EmbeddingsRequest, inputs: Sequence[str | Tokens]) -> bytes:
    """Return the body that asks for the vectors of ``inputs``, as ``request`` asks for its own."""
    given = inputs if request.is_batch or len(inputs) > 1 else inputs[0]
    return orjson.dumps({**request.rest, "input": given})


_ENCODINGS = frozenset(Encoding)


def _has_objects(given: object) -> bool:
    """Return whether there is an image or the like in it, as some servers take."""
    return isinstance(given, dict) or (
        isinstance(given, list) and any(isinstance(one, dict) for one in given)
    )


def _inputs(given: list[object], max_inputs: int) -> tuple[str | Tokens, ...]:
    if not 1 <= len(given) <= max_inputs:
        raise RequestError(
            f"'input' has {len(given)} items; allowed: 1 to {max_inputs}.",
            code="invalid_value",
            param="input",
        )
    kind = type(given[0])
    for place, one in enumerate(given):
        if type(one) is not kind:
            allowed = "only texts, or only lists of tokens"
            raise _wrong(f"input[{place}]", one, f"{allowed}; input[0] is of the other kind")
    return tuple([_one(one, f"input[{place}]") for place, one in enumerate(given)])


def _one(given: object, field: str) -> str | Tokens:
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise _wrong(field, given, "a text, a list of tokens, or a list of either")
    for place, token in enumerate(given):
        if not (_is_integer(token) and 0 <= token <= MAX_TOKEN):
            raise _wrong(f"{field}[{place}]", token, f"an integer from 0 to {MAX_TOKEN}")
    return tuple(given)


def _dimensions(given: object) -> int | None:
    if given is None:
        return None
    if not (isinstance(given, int) and _is_integer(given) and 1 <= given <= MAX_DIMENSIONS):
        raise _wrong("dimensions", given, f"an integer from 1 to {MAX_DIMENSIONS}")
    return given


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parameters(body: Mapping[str, Any]) -> str:
    unknown = {name: value for name, value in body.items() if name not in _UNKEYED}
    return orjson.dumps(unknown, option=orjson.OPT_SORT_KEYS).decode() if unknown else ""


_SHOWN_CHARACTERS = 40


def _wrong(field: str, value: object, allowed: str) -> RequestError:
    shown = repr(value)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}..."
    return RequestError(
        f"'{field}' is {shown}; allowed: {allowed}.", code="invalid_value", param=field
    )
