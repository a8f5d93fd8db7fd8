"""Opening a bundled embedder: its weights are converted at first, and always checked."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.embedding.conversion.convert import (
    CHARACTERS_FILE,
    MODEL_FILE,
    PIECES_FILE,
    REFERENCES_FILE,
    VOCABULARY_FILE,
    Files,
    Reference,
    convert_e5,
    convert_minilm,
)
from stepwell.embedding.encoder import Encoder, Tokenizer, unit
from stepwell.embedding.model_folder import Damaged, check_folder, remove_folder, write_folder
from stepwell.embedding.onnx_encoder import Network, OnnxEncoder
from stepwell.embedding.recipes import CONVERSION, E5, LAYOUT, MINILM, USE, Recipe
from stepwell.embedding.sources import check_sources, find_sources
from stepwell.embedding.unigram import UnigramTokenizer
from stepwell.embedding.use_encoder import UseEncoder
from stepwell.embedding.wordpiece import WordPieceTokenizer

KEPT_TEXTS = 512
"""Whose states are kept: of questions that were just embedded, and of candidates that are often
met. Some 25 KB each, 55 KB at most."""

_CONVERSIONS: dict[str, Callable[[Sequence[Path]], Files]] = {
    E5.name: convert_e5,
    MINILM.name: convert_minilm,
}


def open_encoder(recipe: Recipe, cache: Path) -> Encoder:
    """Return the embedder of ``recipe``, ready to work.

    The first time it converts the weights of the installed package, which takes seconds, and
    keeps the result in ``cache``; later it checks what is there, which takes 0.2 s, and makes it
    anew if it is damaged. Blocks. Several processes may do this at once.

    Raises:
        ConfigError: A package is missing or of another version, or its network does not compute
            what its weights say.
        OSError: ``cache`` cannot be written.
    """
    if recipe.name == USE.name:
        sources = find_sources(recipe)
        check_sources(recipe, sources)
        return UseEncoder(recipe, *sources)
    folder = _ready_folder(recipe, cache)
    # Only E5's states are compared.
    network = Network(folder / MODEL_FILE, kept_texts=KEPT_TEXTS if recipe.name == E5.name else 0)
    _check(network, folder, recipe)
    return OnnxEncoder(recipe, _tokenizer(folder, recipe), network)


def _ready_folder(recipe: Recipe, cache: Path) -> Path:
    digest = hashlib.sha256(f"{CONVERSION}.{LAYOUT}".encode())
    for source in recipe.sources:
        digest.update(source.sha256.encode())
    folder = cache / f"{recipe.name}-{digest.hexdigest()[:16]}"
    try:
        check_folder(folder)
    except Damaged:
        sources = find_sources(recipe)
        check_sources(recipe, sources)
        files = _CONVERSIONS[recipe.name](sources)
        # Those of other versions of this package too: they would lie there for ever.
        for old in cache.glob(f"{recipe.name}-*"):
            remove_folder(old)
        write_folder(folder, files)
    return folder


def _check(network: Network, folder: Path, recipe: Recipe) -> None:
    references = msgspec.json.decode((folder / REFERENCES_FILE).read_bytes(), type=list[Reference])
    for reference in references:
        cosine = _cosine(network, reference)
        if cosine < recipe.fidelity:
            raise ConfigError(
                f"the embedder {recipe.name} does not compute what its weights say: cosine "
                f"{cosine:.4f} to the reference, less than {recipe.fidelity}; remove {folder} "
                "and start again"
            )


def _cosine(network: Network, reference: Reference) -> float:
    try:
        got = unit(network.mean_state(reference.ids))
    except EmbeddingError:  # such as a vector that is not finite
        return 0.0
    return float(got @ unit(np.array(reference.mean, np.float32)))


def _tokenizer(folder: Path, recipe: Recipe) -> Tokenizer:
    if recipe.name == MINILM.name:
        return WordPieceTokenizer(folder / VOCABULARY_FILE)
    characters = msgspec.json.decode((folder / CHARACTERS_FILE).read_bytes(), type=dict[str, str])
    return UnigramTokenizer(folder / PIECES_FILE, characters, recipe.prefix)
