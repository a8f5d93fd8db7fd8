"""A BERT encoder as an ONNX graph that multiplies in 8-bit integers.

Weights are quantised once, a scale for each column; a layer's input is quantised on the fly with
one scale for all its tokens (*dynamic* quantisation). So a text's vector depends on what shares
its batch: the graph takes one text, and its batch size is fixed at 1.

Weights use 7 of the 8 bits. Processors without VNNI add two products of a weight and an input in
16 bits, which 8-bit weights overflow. It costs little: before balancing, cosines to float32
were .997 both ways for multilingual-e5-small, and .994 both ways for MiniLM.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepwell.embedding.conversion.balance import Balanced
from stepwell.embedding.conversion.bert import BLOCK, Array, Bert, FloatTable, Linear, Norm
from stepwell.embedding.conversion.onnx import Graph

INPUT = "ids"
"""int64 (1, tokens)."""
OUTPUT = "mean"
"""float32 (1, hidden): the mean of the last layer's states."""
STATES = "states"
"""float32 (1, tokens, hidden): the last layer's states. Computed anyway; read when asked for."""

LARGEST = 63


def make_graph(model: Bert, layers: Sequence[Balanced]) -> Graph:
    """Return the nodes and constants of ``model``; `model_bytes` finishes it.

    ``layers`` are its own, balanced.
    """
    graph = Graph()
    states = _embedded(graph, model)
    for number, layer in enumerate(layers):
        states = _layer(graph, f"layer{number}.", layer, states, model)
    graph.node("ReduceMean", [states, "one"], OUTPUT, keepdims=0)
    graph.node("Identity", [states], STATES)
    return graph


def model_bytes(graph: Graph, hidden: int) -> bytes:
    """Return the finished model; its constants are in ``graph.data``."""
    return graph.model(
        {INPUT: ("int64", [1, "tokens"])},
        {OUTPUT: ("float32", [1, hidden]), STATES: ("float32", [1, "tokens", hidden])},
    )


def quantised(
    weight: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a weight in whole numbers up to `LARGEST`, and the scale of each of its columns."""
    largest = np.abs(weight).max(axis=0)
    scales = np.where(largest == 0, 1, largest / LARGEST).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


def _embedded(graph: Graph, model: Bert) -> str:
    graph.hold("one", np.array([1], np.int64))
    graph.hold("zero", np.array([0], np.int64))
    words = _words(graph, model)
    graph.hold("positions", model.positions[np.newaxis])
    graph.node("Shape", [INPUT], "tokens", start=1)
    graph.node("Slice", ["positions", "zero", "tokens", "one"], "place")
    return graph.fused(
        "SkipLayerNormalization",
        [words, "place", *_norm(graph, "norm", model.norm)],
        "embedded",
        epsilon=model.epsilon,
    )


def _words(graph: Graph, model: Bert) -> str:
    if isinstance(model.words, FloatTable):
        graph.hold("table", model.words.rows)
        return graph.node("Gather", ["table", INPUT], "words")
    graph.hold_int4("table", model.words.nibbles)
    graph.hold("table.scales", model.words.scales)
    return graph.fused(
        "GatherBlockQuantized",
        ["table", INPUT, "table.scales"],
        "words",
        block_size=BLOCK,
        gather_axis=0,
        quantize_axis=1,
    )


def _layer(graph: Graph, name: str, balanced: Balanced, states: str, model: Bert) -> str:
    layer = balanced.layer
    smooth = _scaled(graph, f"{name}qkv", states, balanced.query_key_value)
    attended = _attention(graph, name, layer.query_key_value, smooth, model.heads)
    out = _product(graph, f"{name}attention_out", layer.attention_out, attended)
    states = graph.fused(
        "SkipLayerNormalization",
        [
            out,
            states,
            *_norm(graph, f"{name}attention_norm", layer.attention_norm),
            graph.hold(f"{name}attention_out.bias", layer.attention_out.bias),
        ],
        f"{name}attended",
        epsilon=model.epsilon,
    )
    smooth = _scaled(graph, f"{name}up", states, balanced.up)
    raised = _product(graph, f"{name}up", layer.up, smooth)
    bent = graph.fused(
        "BiasGelu", [raised, graph.hold(f"{name}up.bias", layer.up.bias)], f"{name}bent"
    )
    smooth = _scaled(graph, f"{name}down", bent, balanced.down)
    lowered = _product(graph, f"{name}down", layer.down, smooth)
    return graph.fused(
        "SkipLayerNormalization",
        [
            lowered,
            states,
            *_norm(graph, f"{name}norm", layer.norm),
            graph.hold(f"{name}down.bias", layer.down.bias),
        ],
        f"{name}out",
        epsilon=model.epsilon,
    )


def _scaled(graph: Graph, name: str, states: str, factors: Array) -> str:
    """Add a multiplication, channel by channel."""
    return graph.node("Mul", [states, graph.hold(f"{name}.factors", factors)], f"{name}.smooth")


def _attention(graph: Graph, name: str, linear: Linear, states: str, heads: int) -> str:
    """Add the projections to queries, keys and values, and attention, as one operator."""
    weight, scales = quantised(linear.weight)
    whole = [f"{name}whole", f"{name}scale", f"{name}zero"]
    graph.node("DynamicQuantizeLinear", [states], whole)
    return graph.fused(
        "QAttention",
        [
            whole[0],
            graph.hold(f"{name}qkv", weight),
            graph.hold(f"{name}qkv.bias", linear.bias),
            whole[1],
            graph.hold(f"{name}qkv.scales", scales),
            "",
            whole[2],
            graph.hold(f"{name}qkv.zeros", np.zeros(len(scales), np.int8)),
        ],
        f"{name}heads",
        num_heads=heads,
    )


def _product(graph: Graph, name: str, linear: Linear, states: str) -> str:
    """Add a product; whoever takes it adds the bias in the same pass as other work."""
    weight, scales = quantised(linear.weight)
    constants = [graph.hold(name, weight), graph.hold(f"{name}.scales", scales)]
    return graph.fused("DynamicQuantizeMatMul", [states, *constants], f"{name}.product")


def _norm(graph: Graph, name: str, norm: Norm) -> list[str]:
    return [graph.hold(f"{name}.gain", norm.gain), graph.hold(f"{name}.bias", norm.bias)]
