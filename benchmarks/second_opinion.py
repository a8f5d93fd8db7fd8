"""What a second opinion on the best candidate is worth, and what it costs.

Labelled pairs of questions, read in place. For each set: how well a score tells pairs with one
answer from pairs with two (area under the curve), and how many of the former are served where 1 %
or 5 % of the latter are; with the safety valve, what it refuses is never served.

    python benchmarks/second_opinion.py [--smoke] [--json OUT] [--data DIR] [--cache DIR]

DIR is by default ``$STEPWELL_BENCH_DATA``, or ``../shared/data`` beside the project.
"""

import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from report import parse_arguments, print_table, write
from semantic_quality import DATA, OWN, Judged, Labelled, embed, judge, load

from stepwell.assembly.environment import cache_dir
from stepwell.embedding.comparison import TokenComparer, comparer_of
from stepwell.embedding.onnx_encoder import OnnxEncoder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5

SETS = (
    "en_fow_pairs",
    "own_hard_pairs_en_zh",
    "en_checklist_qqp",
    "en_mqp",
    "en_qqp",
    "zh_lcqmc",
    "zh_bq",
    "zh_afqmc",
    "zh_oppo",
    "zh_pawsx",
    "zh_duqm_examples",
)
PAIRS, SMOKE_PAIRS = 600, 40
SHARES = (0.01, 0.05)
GATES = tuple(
    (cosine, opinion)
    for cosine in (0.75, 0.80, 0.85, 0.90)
    for opinion in (0.0, 0.5, 0.7, 0.8, 0.9)
)
"""What must be reached to be served: a cosine, and an opinion."""
SLOPE = 10.0
"""Log-odds that a whole unit of cosine is worth beside the opinion's."""

Scores = npt.NDArray[np.float64]
NEVER = -1e9


def area(same: npt.NDArray[np.bool_], scores: Scores) -> float:
    """Return how often a pair of the same has the higher score, a tie counting half."""
    ones, others = scores[same][:, None], scores[~same][None]
    return float((ones > others).mean() + (ones == others).mean() / 2) if len(ones) else math.nan


def hits(same: npt.NDArray[np.bool_], scores: Scores, share: float) -> float:
    """Return the share of the same above the score that ``share`` of the others reach."""
    others = np.sort(scores[~same])[::-1]
    allowed = int(share * len(others))
    bar = others[allowed] if allowed < len(others) else NEVER
    return float((scores[same] > max(bar, NEVER)).mean())


def measure(judged: Sequence[Judged], opinion: TokenComparer) -> dict[str, Any]:
    """Return all figures of one set."""
    same = np.array([one.pair.same for one in judged])
    open_ = np.array([one.refused_by is None for one in judged])
    cosine = np.array([NEVER if one.similarity is None else one.similarity for one in judged])
    began = time.thread_time()
    opinions = [opinion.score(one.pair.stored, one.pair.asked) for one in judged]
    milliseconds = (time.thread_time() - began) / len(judged) * 1e3
    log_odds = np.array([NEVER if o is None else _log_odds(o) for o in opinions])
    both = log_odds + SLOPE * cosine
    scores = {"cosine": cosine, "opinion": log_odds, "both": both}
    scores |= {f"{name}+valve": np.where(open_, s, NEVER) for name, s in [*scores.items()]}
    figures: dict[str, Any] = {"same": int(same.sum()), "other": int((~same).sum())}
    figures["opinion_ms"] = milliseconds
    likely = np.array([0.0 if o is None else o for o in opinions])
    for bar, least in GATES:
        served = open_ & (cosine >= bar) & (likely >= least)
        figures[f"served {bar} {least}"] = [
            float(served[kind].mean()) if kind.any() else None for kind in (same, ~same)
        ]
    for name, values in scores.items():
        figures[name] = [area(same, values), *(hits(same, values, share) for share in SHARES)]
    return figures


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-12), 1 - 1e-12)
    return math.log(share / (1 - share))


def main() -> None:
    """Measure and report."""
    options = parse_arguments(
        __doc__, data="folder with the labelled sets", cache="folder in which vectors are kept"
    )
    data = Path(options.data or os.environ.get("STEPWELL_BENCH_DATA") or DATA)
    kept = None if options.cache is None else Path(options.cache)
    sets = dict(_sets(data, SMOKE_PAIRS if options.smoke else PAIRS))
    texts = sorted({text for pairs in sets.values() for p in pairs for text in (p.stored, p.asked)})
    vectors = embed(E5, texts, kept)
    encoder = open_encoder(E5, cache_dir() / "models")
    assert isinstance(encoder, OnnxEncoder)
    opinion = comparer_of(encoder)
    assert opinion is not None
    results = {name: measure(judge(pairs, vectors, None), opinion) for name, pairs in sets.items()}
    rows = [{"set": label, **_row(figures)} for label, figures in results.items()]
    print("area under the curve, hits where 1 % / 5 % of the others are served too")
    print_table(rows, [*rows[0]])
    gates = [{"set": label, **_gates(figures)} for label, figures in results.items()]
    print("percent of the same / the others served by the valve, a cosine and an opinion")
    print_table(gates, [*gates[0]])
    write("second_opinion", results, options.json)


def _row(figures: dict[str, Any]) -> dict[str, object]:
    return {
        name: " ".join(f"{value:.2f}" for value in told) if isinstance(told, list) else told
        for name, told in figures.items()
        if not name.startswith("served")
    }


def _gates(figures: dict[str, Any]) -> dict[str, object]:
    return {
        name.removeprefix("served "): "/".join("-" if s is None else f"{s:.0%}" for s in shares)
        for name, shares in figures.items()
        if name.startswith("served")
    }


def _sets(data: Path, most: int) -> Iterator[tuple[str, list[Labelled]]]:
    paths = [data / "pairs" / f"{name}.jsonl" for name in SETS]
    found = [path for path in paths if path.exists()]
    if not found:
        print(f"no pairs in {data}: our own only, which measure nothing; --data names a folder")
    for path in found or [OWN]:
        name, pairs = path.stem, [*load(path)]
        for language in sorted({pair.language for pair in pairs}):
            some = [pair for pair in pairs if pair.language == language]
            yield f"{name} {language}", random.Random(5).sample(some, min(most, len(some)))


if __name__ == "__main__":
    main()
