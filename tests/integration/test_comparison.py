"""The second opinion with the real embedder's states, on pairs of our own."""

import importlib.util
from pathlib import Path

import pytest

from stepwell.embedding.comparison import TokenComparer, comparer_of
from stepwell.embedding.onnx_encoder import OnnxEncoder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5

pytestmark = pytest.mark.embedder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> OnnxEncoder:
    for package in ("onnxruntime", "sentencepiece", E5.sources[0].package):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"not installed: {package}")
    opened = open_encoder(E5, Path(tmp_path_factory.mktemp("models")))
    assert isinstance(opened, OnnxEncoder)
    return opened


@pytest.fixture(scope="module")
def second(encoder: OnnxEncoder) -> TokenComparer:
    comparer = comparer_of(encoder)
    assert comparer is not None
    return comparer


@pytest.mark.parametrize(
    ("asked", "same", "other"),
    [
        (
            "How do I renew my fishing licence?",
            "how can I renew my fishing licence",
            "How do I renew my hunting licence?",
        ),
        (
            "When does the bakery open on Saturday?",
            "What time does the bakery open on Saturday?",
            "When does the bakery open on Sunday?",
        ),
        ("怎么清洗羊毛围巾", "如何清洗羊毛围巾？", "怎么清洗羊毛地毯"),
        ("杭州到苏州的火车票多少钱", "请问杭州到苏州的火车票多少钱", "杭州到无锡的火车票多少钱"),
    ],
)
def test_a_rewording_is_surer_than_a_look_alike(
    second: TokenComparer, asked: str, same: str, other: str
) -> None:
    reworded, alike = second.score(asked, same), second.score(asked, other)
    assert reworded is not None
    assert alike is not None
    assert reworded > 0.5
    assert reworded > alike


def test_the_prefix_does_not_count(second: TokenComparer) -> None:
    read = second.read("cat")
    assert read is not None
    assert len(read.ids) == 1


def test_text_of_another_script_is_not_judged(second: TokenComparer) -> None:
    assert second.score("как дела", "how are you") is None


def test_another_embedder_compares_nothing(encoder: OnnxEncoder) -> None:
    class Words:
        def tokens(self, text: str) -> None:
            return None

    other = object.__new__(OnnxEncoder)
    other.tokenizer = Words()
    other.network = encoder.network
    assert comparer_of(other) is None
