"""Whether a provider's reply is what was asked for. Pure."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepwell.core.vectors import Unfit
from stepwell.embedding.cache.provider import BadReply, Input, NoVector, Reply, Row
from stepwell.embedding.cache.value import Numbers

_LEAST_LENGTH: Final = 1e-12
_MOST_LENGTH: Final = 1e12
"""Of a vector; beyond, the numbers cannot be those of a model, nor be kept in each precision."""

Checked = Numbers | NoVector | BadReply
"""What became of one input. A `BadReply` is about this one only."""


def checked_rows(reply: Reply, count: int, *, width: int | None, unit: bool) -> list[Checked]:
    """Return what became of each input, in the order of the inputs.

    Args:
        reply: What was answered to ``count`` inputs.
        count: How many.
        width: Of the vectors, if it is known.
        unit: Make them of unit length.

    Raises:
        BadReply: Too few or too many rows; indices that are no permutation; rows of different
            widths, or another width than ``width``; something that is no vector.
    """
    rows = [_numbers(row) for row in _in_order(reply, count)]
    widths = {row.size for row in rows if not isinstance(row, NoVector)}
    if len(widths) > 1 or (width is not None and not widths <= {width}) or 0 in widths:
        told = "all the same" if width is None else str(width)
        raise BadReply(f"the provider's vectors have {sorted(widths)} numbers; expected: {told}")
    return [row if isinstance(row, NoVector) else _measured(row, unit=unit) for row in rows]


def _in_order(reply: Reply, count: int) -> list[Row]:
    if len(reply.rows) != count:
        raise BadReply(f"the provider answered {len(reply.rows)} vectors to {count} texts")
    if reply.indices is None:
        return list(reply.rows)
    by_index = dict(zip(reply.indices, reply.rows, strict=False))
    if len(reply.indices) != count or by_index.keys() != set(range(count)):
        raise BadReply(f"the provider's indices are not 0 to {count - 1}, each once")
    return [by_index[index] for index in range(count)]


def _numbers(row: Row) -> Numbers | NoVector:
    if isinstance(row, Unfit):
        return NoVector(row)
    try:
        with np.errstate(over="ignore"):  # beyond float32: not finite then
            numbers = np.asarray(row, np.float32)
    except (TypeError, ValueError) as error:
        raise BadReply(f"a row of the provider's reply is no vector: {error}") from error
    if numbers.ndim != 1:
        raise BadReply(f"a row of the provider's reply has {numbers.ndim} dimensions, not 1")
    return numbers


def _measured(numbers: Numbers, *, unit: bool) -> Numbers | BadReply:
    # In float64: squares of large and small numbers are beyond float32.
    wide = numbers.astype(np.float64)
    length = float(np.sqrt(wide @ wide))
    if not _LEAST_LENGTH <= length <= _MOST_LENGTH:  # a length with NaN in it is in no range
        return BadReply("the provider answered a vector that is not finite, or has no direction")
    return (wide / length).astype(np.float32) if unit else numbers


def shares(total: int, inputs: Sequence[Input]) -> list[int]:
    """Return which part of ``total`` tokens each input has: by its length, nothing lost.

    Exact for one input; else by largest remainder (Hamilton), earlier inputs first.
    """
    weights = [len(item.encode()) if isinstance(item, str) else len(item) for item in inputs]
    weight = sum(weights)
    if weight == 0:
        weights, weight = [1] * len(inputs), len(inputs)
    parts = [divmod(total * own, weight) for own in weights]
    left = total - sum(whole for whole, _ in parts)
    first = sorted(range(len(inputs)), key=lambda place: -parts[place][1])[:left]
    lucky = frozenset(first)
    return [whole + (place in lucky) for place, (whole, _) in enumerate(parts)]
