"""The vectors that the fake upstream answers with: a function of the text, in OpenAI's shapes."""

import base64
import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepwell.testing.fake_script import VectorFault

DIMENSIONS = 8
"""Width of a vector unless another one is asked for."""

_Items = list[dict[str, Any]]

_BYTES = 4
_MOST = float(2**32)


def vector_of(given: object, dimensions: int = DIMENSIONS, weights: str = "") -> list[float]:
    """Return the vector of a text or of a list of tokens: numbers from its digest."""
    seed = f"{weights}\0{given}".encode()
    digest = hashlib.shake_256(seed).digest(_BYTES * dimensions)
    numbers = struct.unpack(f"<{dimensions}I", digest)
    # As 32-bit floats, so that either encoding says the same.
    return [_rounded(number / _MOST - 0.5) for number in numbers]


def tokens_of(given: object) -> int:
    """Return how many tokens it counts: words, or the tokens given."""
    return len(given) if isinstance(given, list) else max(1, len(str(given).split()))


def embeddings_json(
    body: Mapping[str, Any], fault: VectorFault | None = None, *, weights: str = ""
) -> dict[str, Any]:
    """Write an answer of ``/embeddings``."""
    given = body.get("input", "")
    inputs = given if isinstance(given, list) and not _is_tokens(given) else [given]
    dimensions = body.get("dimensions") or DIMENSIONS
    vectors = [vector_of(one, dimensions, weights) for one in inputs]
    items: _Items = [
        {"object": "embedding", "index": at, "embedding": vector}
        for at, vector in enumerate(vectors)
    ]
    if fault is not None:
        items = _SPOIL[fault](items)
    if body.get("encoding_format") == "base64":
        items = [{**item, "embedding": _in_base64(item["embedding"])} for item in items]
    tokens = sum(map(tokens_of, inputs))
    return {
        "object": "list",
        "data": items,
        "model": body.get("model", ""),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _last(items: _Items, embedding: Sequence[float | None]) -> _Items:
    return [*items[:-1], {**items[-1], "embedding": embedding}]


_SPOIL: Mapping[VectorFault, Callable[[_Items], _Items]] = {
    VectorFault.PERMUTED: lambda items: items[::-1],
    VectorFault.SHORT: lambda items: items[:-1],
    VectorFault.LONG: lambda items: [*items, {**items[-1], "index": len(items)}],
    VectorFault.TWICE: lambda items: [{**item, "index": 0} for item in items],
    VectorFault.UNEVEN: lambda items: _last(items, items[-1]["embedding"][1:]),
    VectorFault.NOT_A_NUMBER: lambda items: _last(items, [None, *items[-1]["embedding"][1:]]),
    VectorFault.ZERO: lambda items: _last(items, [0.0] * len(items[-1]["embedding"])),
    VectorFault.FOREIGN: lambda items: [{**item, "sparse_embedding": {"7": 1}} for item in items],
}


def _is_tokens(given: list[Any]) -> bool:
    return bool(given) and isinstance(given[0], int)


def _rounded(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _in_base64(numbers: Sequence[float | None]) -> str:
    known = [float("nan") if number is None else number for number in numbers]
    return base64.b64encode(struct.pack(f"<{len(known)}f", *known)).decode()
