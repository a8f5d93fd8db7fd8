"""Writing ONNX models: the messages of ``onnx.proto`` that a graph of known shape needs.

Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepwell.embedding.conversion.protobuf import block, blocks, integer, packed, real

IR_VERSION = 10
OPSET = 21
CONTRIB_DOMAIN = "com.microsoft"
"""onnxruntime's own operators: quantised and fused ones."""

DATA_FILE = "weights.bin"
"""Holds the large constants, beside the model. The runtime maps it: rows of the word table that
no text asks for stay on disk."""

EXTERNAL_FROM_BYTES = 1024
PAGE_BYTES = 4096
"""External constants begin at a multiple of this, as mapping wants it."""

_ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_INT4 = 22
_EXTERNAL = 1

Attribute = int | float | str | Sequence[int]


@dataclass(slots=True)
class Graph:
    """A graph that grows node by node; `model` puts it into bytes.

    ``data`` is what belongs into `DATA_FILE` beside it.
    """

    nodes: list[bytes] = field(default_factory=list)
    initializers: list[bytes] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    def hold(self, name: str, array: npt.NDArray[np.generic]) -> str:
        """Add a constant and return its name. Its element type is that of ``array``."""
        raw = np.ascontiguousarray(array).tobytes()
        self._hold(name, array.shape, _ELEMENT_TYPES[array.dtype.name], raw)
        return name

    def hold_int4(self, name: str, nibbles: npt.NDArray[np.uint8]) -> str:
        """Add a constant of 4-bit signed numbers: two a byte, the first in the low half."""
        rows, columns = nibbles.shape
        self._hold(name, (rows, columns * 2), _INT4, nibbles.tobytes())
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: str | Sequence[str],
        domain: str = "",
        **attributes: Attribute,
    ) -> str:
        """Add a node and return the name of its first output. An absent input is ``""``."""
        outs = [outputs] if isinstance(outputs, str) else list(outputs)
        self.nodes.append(
            blocks(1, inputs)
            + blocks(2, outs)
            + block(3, outs[0])
            + block(4, operator)
            + blocks(5, (_attribute(name, value) for name, value in attributes.items()))
            + (block(7, domain) if domain else b"")
        )
        return outs[0]

    def fused(
        self, operator: str, inputs: Sequence[str], output: str, **attributes: Attribute
    ) -> str:
        """Add a node of onnxruntime's own operators."""
        return self.node(operator, inputs, output, CONTRIB_DOMAIN, **attributes)

    def model(
        self,
        inputs: Mapping[str, tuple[str, Sequence[int | str]]],
        outputs: Mapping[str, tuple[str, Sequence[int | str]]],
    ) -> bytes:
        """Return the ModelProto; inputs and outputs are given as name -> (type, shape)."""
        graph = (
            blocks(1, self.nodes)
            + block(2, "graph")
            + blocks(5, self.initializers)
            + blocks(11, (_value(name, *kind) for name, kind in inputs.items()))
            + blocks(12, (_value(name, *kind) for name, kind in outputs.items()))
        )
        opsets = (("", OPSET), (CONTRIB_DOMAIN, 1))
        return (
            integer(1, IR_VERSION)
            + block(2, "stepwell")
            + block(7, graph)
            + blocks(8, (block(1, domain) + integer(2, version) for domain, version in opsets))
        )

    def _hold(self, name: str, shape: Sequence[int], element: int, raw: bytes) -> None:
        head = packed(1, shape) + integer(2, element) + block(8, name)
        place = block(9, raw) if len(raw) < EXTERNAL_FROM_BYTES else self._outside(raw)
        self.initializers.append(head + place)

    def _outside(self, raw: bytes) -> bytes:
        """Put ``raw`` into the data file; return the fields that say where."""
        self.data.extend(bytes(-len(self.data) % PAGE_BYTES))
        place = {"location": DATA_FILE, "offset": len(self.data), "length": len(raw)}
        self.data.extend(raw)
        entries = (block(1, key) + block(2, str(value)) for key, value in place.items())
        return blocks(13, entries) + integer(14, _EXTERNAL)


def _attribute(name: str, value: Attribute) -> bytes:
    match value:
        case float():
            return block(1, name) + real(2, value) + integer(20, 1)
        case int():
            return block(1, name) + integer(3, value) + integer(20, 2)
        case str():
            return block(1, name) + block(4, value) + integer(20, 3)
        case _:
            return block(1, name) + packed(8, value) + integer(20, 7)


def _value(name: str, element: str, shape: Sequence[int | str]) -> bytes:
    """Return a ValueInfoProto: a name, an element type, and sizes, a text being any size."""
    sizes = (block(2, size) if isinstance(size, str) else integer(1, size) for size in shape)
    kind = integer(1, _ELEMENT_TYPES[element]) + block(2, blocks(1, sizes))
    return block(1, name) + block(2, block(1, kind))
