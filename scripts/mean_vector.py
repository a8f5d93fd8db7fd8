"""Computes the vector that centres multilingual-e5-small: the mean of English and of Chinese.

    python scripts/mean_vector.py DATA OUT [--cache FOLDER]

Writes 384 float32 numbers, little-endian. ``DATA`` is a folder with the files of `SOURCES`: public
sets of short texts whose licences allow use in a product, one JSON object a line. No text of them
is in the result, or anywhere in this project. Up to 1,500 texts of each are taken, so that none
prevails, and both languages weigh the same.

Sets and credits: FOW cache pairs (Mabon ap Gwyn, CC BY 4.0); GPTCache's benchmark (Zilliz, MIT);
medical question entailment (A. Ben Abacha and D. Demner-Fushman, CC BY 4.0); time-sensitive QA
(W. Chen et al., BSD-3-Clause); Banking77 (PolyAI, CC BY 4.0); CLINC150 (S. Larson et al., CC BY
3.0); HWU64 (X. Liu et al., CC BY 4.0); SVAMP (A. Patel et al., MIT); Tatoeba (CC BY 2.0 FR); DuQM
(Baidu, Apache-2.0); PAWS-X (Google); CrossWOZ (Q. Zhu et al., Apache-2.0).
"""

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepwell.core.vectors import Unfit
from stepwell.embedding.encoder import Encoder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5

TEXTS_PER_SOURCE = 1500
SEED = 7


@dataclass(frozen=True)
class Source:
    """A file, and which of its texts are taken."""

    language: str
    path: str
    fields: tuple[str, ...] = ("text",)
    only: tuple[str, str] | None = None
    """A field and the value it must have."""


PAIR = ("a", "b")
SOURCES = (
    Source("en", "pairs/en_fow_pairs.jsonl", PAIR),
    Source("en", "pairs/en_gptcache_mock.jsonl", PAIR),
    Source("en", "pairs/en_rqe_medical.jsonl", PAIR),
    Source("en", "pairs/en_time_sensitive_qa.jsonl", PAIR),
    Source("en", "stream/en_banking77.jsonl"),
    Source("en", "stream/en_clinc150.jsonl"),
    Source("en", "stream/en_hwu64.jsonl"),
    Source("en", "stream/en_svamp.jsonl"),
    Source("en", "stream/tatoeba_en_zh.jsonl", only=("lang", "en")),
    Source("zh", "stream/tatoeba_en_zh.jsonl", only=("lang", "zh")),
    Source("zh", "pairs/zh_duqm_examples.jsonl", PAIR),
    Source("zh", "pairs/zh_pawsx.jsonl", PAIR),
    Source("zh", "conv/conv_crosswoz_zh.jsonl", ("messages",)),
)


def main() -> None:
    """Compute it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("build/embedders"))
    arguments = parser.parse_args()
    encoder = open_encoder(replace(E5, mean=None), arguments.cache)
    means = []
    for language in ("en", "zh"):
        texts = [
            text
            for source in SOURCES
            if source.language == language
            for text in sample(source, arguments.data)
        ]
        vectors = embedded(encoder, texts)
        means.append(vectors.mean(axis=0))
        print(f"{language}: {len(vectors)} texts, mean of length {np.linalg.norm(means[-1]):.4f}")
    mean = np.mean(means, axis=0).astype("<f4")
    print(f"mean of length {np.linalg.norm(mean):.4f}")
    arguments.out.write_bytes(mean.tobytes())


def sample(source: Source, data: Path) -> list[str]:
    """Return distinct texts of a source: the same ones each time."""
    texts = sorted(set(texts_of(source, data)))
    random.Random(SEED).shuffle(texts)
    return texts[:TEXTS_PER_SOURCE]


def texts_of(source: Source, data: Path) -> Iterator[str]:
    """Yield all texts of a source; of a conversation, what the user said."""
    with (data / source.path).open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if source.only is not None and row[source.only[0]] != source.only[1]:
                continue
            for field in source.fields:
                value = row[field]
                if isinstance(value, str):
                    yield value
                else:
                    yield from (said["content"] for said in value if said["role"] == "user")


def embedded(encoder: Encoder, texts: list[str]) -> npt.NDArray[np.float64]:
    """Return the vectors of those texts that have one."""
    rows = (encoder.encode(text) for text in texts)
    return np.array([row for row in rows if not isinstance(row, Unfit)], np.float64)


if __name__ == "__main__":
    main()
