"""Lets GPTCache decide about pairs of vectors; run by `semantic_quality.py`, where it is installed.

Each pair in a cache of its own, with GPTCache's shipped evaluation (distance) and threshold (0.8).

    python gptcache_pairs.py PAIRS.npz      prints {"version": ..., "hits": [...]}
"""

import json
import sys

import numpy as np
from gptcache import Cache, Config
from gptcache.adapter.api import get, put
from gptcache.manager import CacheBase, VectorBase, get_data_manager
from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation


def main() -> None:
    """Read the pairs, decide, print."""
    with np.load(sys.argv[1]) as pairs:
        stored, asked = pairs["stored"], pairs["asked"]
    vectors: dict[str, np.ndarray] = {}
    hits = []
    for number, (one, other) in enumerate(zip(stored, asked, strict=True)):
        vectors["stored"], vectors["asked"] = one, other
        cache = Cache()
        cache.init(
            pre_embedding_func=lambda data, **_: data["prompt"],
            embedding_func=lambda text, **_: vectors[text],
            data_manager=get_data_manager(
                CacheBase("sqlite", sql_url=f"sqlite:///{number}.db"),
                VectorBase("faiss", dimension=len(one), index_path=f"{number}.index"),
            ),
            similarity_evaluation=SearchDistanceEvaluation(),
            config=Config(),
        )
        put("stored", "answer", cache_obj=cache)
        hits.append(get("asked", cache_obj=cache) == "answer")
    from importlib.metadata import version  # noqa: PLC0415

    print(json.dumps({"version": version("gptcache"), "hits": hits}))


if __name__ == "__main__":
    main()
