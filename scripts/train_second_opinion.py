"""Train the second opinion and write its weights.

    PYTHONPATH=src:scripts python scripts/train_second_opinion.py DATA WORDNET OUT [--cache DIR]

DATA is the folder of the open sets named in `second_opinion.sources`; WORDNET the folder with
``data.noun`` (Debian: the package ``wordnet-base``, /usr/share/wordnet); OUT the weights, with a
card of what they were made of. Needs the extra ``semantic``. Costs some 10 minutes of one core;
what pairs were found to be like is kept in DIR.

The seed is fixed. Processors whose integer products differ give slightly other states.
"""

import argparse
import dataclasses
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
from second_opinion.gather import gather
from second_opinion.pairs import Pair

from stepwell.core.errors import ConfigError
from stepwell.embedding.comparison import TokenComparer, Weights, comparer_of
from stepwell.embedding.likeness import FEATURES, likeness
from stepwell.embedding.onnx_encoder import OnnxEncoder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5

SEED = 7
RIDGE = 1e-3
"""Weight of the penalty on weights, for each pair."""
ROUNDS = 30

Floats = npt.NDArray[np.float64]


def main() -> None:
    """Gather pairs, measure them, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "wordnet", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--count", type=int, default=10_000, help="scale of the made pairs")
    parser.add_argument("--pairs", type=int, default=16_000, help="how many of them are used")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "stepwell")
    arguments = parser.parse_args()
    encoder = open_encoder(E5, arguments.cache / "models")
    if not isinstance(encoder, OnnxEncoder):
        raise ConfigError("the embedder is of another kind")

    def vectors(texts: list[str]) -> npt.NDArray[np.float32]:
        rows = [encoder.encode(text) for text in texts]
        none = np.zeros(E5.dimensions, np.float32)
        return np.stack([row if isinstance(row, np.ndarray) else none for row in rows])

    pairs = gather(arguments.data, arguments.wordnet, vectors, arguments.count, SEED)
    pairs = pairs[: arguments.pairs]
    print(f"{len(pairs)} pairs, {sum(pair.same for pair in pairs)} of them the same", flush=True)
    blank = Weights(FEATURES, *[(0.0,) * len(FEATURES)] * 3, 0.0)
    measured, used = measure(comparer_of(encoder, blank), pairs)
    weights = fit(measured, np.array([pair.same for pair in used], np.float64))
    write(weights, used, arguments.out)


def measure(opinion: TokenComparer, pairs: list[Pair]) -> tuple[Floats, list[Pair]]:
    """Return the features of the pairs that can be judged, and those pairs."""
    rows, used = [], []
    for number, pair in enumerate(pairs):
        one, other = opinion.read(pair.one), opinion.read(pair.other)
        if one is not None and other is not None:
            rows.append(likeness(one, other))
            used.append(pair)
        if number % 1000 == 0:
            print(f"{number} measured", flush=True)
    return np.stack(rows), used


def fit(measured: Floats, same: Floats) -> Weights:
    """Fit a logistic regression by Newton's method."""
    means, scales = measured.mean(axis=0), measured.std(axis=0) + 1e-6
    rows = np.c_[(measured - means) / scales, np.ones(len(measured))]
    weights = np.zeros(rows.shape[1])
    penalty = np.eye(len(weights)) * RIDGE * len(rows)
    penalty[-1, -1] = 0
    for _ in range(ROUNDS):
        odds = np.clip(rows @ weights, -30, 30)
        share = 1 / (1 + np.exp(-odds))
        slope = rows.T @ (share - same) + penalty @ weights
        curve = (rows * (share * (1 - share))[:, None]).T @ rows + penalty
        weights -= np.linalg.solve(curve, slope)
    numbers = (tuple(map(float, values)) for values in (means, scales, weights[:-1]))
    return Weights(FEATURES, *numbers, float(weights[-1]))


def write(weights: Weights, pairs: list[Pair], out: Path) -> None:
    """Write the weights, and what they were made of."""
    kinds = Counter(f"{pair.kind}: {'same' if pair.same else 'other'}" for pair in pairs)
    texts = "\0".join(f"{pair.one}\0{pair.other}\0{pair.same}" for pair in pairs)
    card = {
        **dataclasses.asdict(weights),
        "seed": SEED,
        "pairs": dict(sorted(kinds.items())),
        "pairs_sha256": hashlib.sha256(texts.encode()).hexdigest(),
    }
    out.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
