"""The weights of a BERT encoder, and the forward pass in float32 that the graph is checked by.

Devlin et al., *BERT*, 2018. Both models of this room are of that kind: post-norm layers, learned
positions, GELU by the error function, mean pooling.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

BLOCK = 32
"""Numbers that share a scale in a 4-bit table."""

_NIBBLE_SIGN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """``x @ weight + bias``; the weight is (in, out)."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """A layer normalisation over the last axis."""

    gain: Array
    bias: Array


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One layer: attention, then the two projections."""

    query_key_value: Linear
    """The three side by side: (hidden, 3 x hidden)."""
    attention_out: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    norm: Norm


@dataclass(frozen=True, slots=True, eq=False)
class FloatTable:
    """Word vectors as they are: (words, hidden)."""

    rows: Array

    def look_up(self, ids: npt.NDArray[np.int64]) -> Array:
        """Return the vectors of some words."""
        return self.rows[ids]

    def only(self, ids: npt.NDArray[np.int64]) -> "FloatTable":
        """Return the table of some words, numbered anew."""
        return FloatTable(self.rows[ids])


@dataclass(frozen=True, slots=True, eq=False)
class NibbleTable:
    """Word vectors of 4-bit signed numbers with a scale for each `BLOCK` of them."""

    nibbles: npt.NDArray[np.uint8]
    """(words, hidden / 2); two's complement, the first of a pair in the low half."""
    scales: Array
    """(words, hidden / `BLOCK`)."""

    def look_up(self, ids: npt.NDArray[np.int64]) -> Array:
        """Return the vectors of some words."""
        packed = self.nibbles[ids]
        pairs = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(ids), -1)
        signed = (pairs ^ _NIBBLE_SIGN).astype(np.float32) - _NIBBLE_SIGN
        return np.asarray(signed * np.repeat(self.scales[ids], BLOCK, axis=1), np.float32)

    def only(self, ids: npt.NDArray[np.int64]) -> "NibbleTable":
        """Return the table of some words, numbered anew."""
        return NibbleTable(self.nibbles[ids], self.scales[ids])


@dataclass(frozen=True, slots=True, eq=False)
class Bert:
    """An encoder."""

    words: FloatTable | NibbleTable
    positions: Array
    """(longest text, hidden), the vector of the only token type added."""
    norm: Norm
    layers: tuple[Layer, ...]
    heads: int
    epsilon: float

    @property
    def hidden(self) -> int:
        """Width of a token's vector."""
        return int(self.positions.shape[1])


class Product(Enum):
    """The products of a layer."""

    QUERY_KEY_VALUE = auto()
    ATTENTION_OUT = auto()
    UP = auto()
    DOWN = auto()


See = Callable[[int, Product, Array], None]
"""Is shown the input of each product: number of the layer, which one, (tokens, in)."""


def mean_state(model: Bert, ids: npt.NDArray[np.int64], see: See | None = None) -> Array:
    """Return the mean of the last layer's states of one text, in float32 throughout.

    Costs tens of milliseconds for a short text: for checking, not for serving.
    """
    states = _normalised(model.words.look_up(ids) + model.positions[: len(ids)], model.norm, model)
    for number, layer in enumerate(model.layers):
        states = _through(layer, states, model, partial(see or _see_nothing, number))
    return np.asarray(states.mean(axis=0), np.float32)


def _see_nothing(layer: int, product: Product, states: Array) -> None:
    """Look away."""


def _through(
    layer: Layer, states: Array, model: Bert, see: Callable[[Product, Array], None]
) -> Array:
    see(Product.QUERY_KEY_VALUE, states)
    attended = _attend(_product(states, layer.query_key_value), model)
    see(Product.ATTENTION_OUT, attended)
    out = _product(attended, layer.attention_out)
    states = _normalised(states + out, layer.attention_norm, model)
    see(Product.UP, states)
    raised = _gelu(_product(states, layer.up))
    see(Product.DOWN, raised)
    return _normalised(states + _product(raised, layer.down), layer.norm, model)


def _product(states: Array, linear: Linear) -> Array:
    return np.asarray(states @ linear.weight + linear.bias, np.float32)


def _normalised(states: Array, norm: Norm, model: Bert) -> Array:
    centred = states - states.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + model.epsilon) * norm.gain + norm.bias)


def _attend(query_key_value: Array, model: Bert) -> Array:
    """Return scaled dot-product attention of all heads, side by side."""
    length = len(query_key_value)
    width = model.hidden // model.heads
    query, key, value = query_key_value.reshape(length, 3, model.heads, width).transpose(1, 2, 0, 3)
    scores = query @ key.transpose(0, 2, 1) / np.float32(math.sqrt(width))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray((weights @ value).transpose(1, 0, 2).reshape(length, model.hidden))


_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(values: Array) -> Array:
    return np.asarray(values * 0.5 * (1 + _erf(values / math.sqrt(2)).astype(np.float32)))
