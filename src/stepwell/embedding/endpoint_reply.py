"""What a server answers to ``POST /v1/embeddings``, checked."""

import msgspec
import numpy as np

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Vector
from stepwell.embedding.encoder import unit


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_Item]


_decoder = msgspec.json.Decoder(_Reply)


def read_reply(body: bytes, count: int, dimensions: int) -> list[Vector]:
    """Return the vectors of ``count`` texts in the order of the texts, made of unit length.

    Raises:
        EmbeddingError: The body is no such answer; there are more or fewer vectors, or two for
            one text; one has another width, or numbers that are not finite, or no direction.
    """
    try:
        reply = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise EmbeddingError(f"the server's reply is no list of embeddings: {error}") from error
    found = {item.index: item.embedding for item in reply.data}
    if len(reply.data) != count or found.keys() != set(range(count)):
        raise EmbeddingError(
            f"the reply has {len(reply.data)} vectors, of {len(found)} texts;"
            f" {count} were asked for"
        )
    return [_vector(found[index], dimensions) for index in range(count)]


def _vector(numbers: list[float], dimensions: int) -> Vector:
    if len(numbers) != dimensions:
        raise EmbeddingError(f"a vector has {len(numbers)} numbers instead of {dimensions}")
    with np.errstate(over="ignore"):  # beyond float32: not finite then, which `unit` refuses
        return unit(np.array(numbers, np.float32))
