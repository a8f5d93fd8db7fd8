"""Lets other caches of vectors work; run by `embedding_cache.py` where they are installed.

    python embedding_caches.py PORT

PORT is a Redis with nothing in it. Lines on standard input are answered by lines of JSON: ``laws``
by what each does with duplicates, callers at the same time, another model and a provider that
answers out of order; ``time NAME TEXTS ROUNDS`` by the seconds and the CPU seconds of ROUNDS hits
with that many texts each; ``size`` by the bytes of a vector in Redis.

Vectors have 1,536 numbers. Each is asked as its documentation shows, with what it defaults to.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any, ClassVar

import litellm
import numpy as np
import redis
import redis.asyncio
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore
from litellm.caching.caching import Cache
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.storage.kvstore import SimpleKVStore
from redisvl.extensions.cache.embeddings import EmbeddingsCache

WIDTH = 1_536
TEXTS = [f"text {number} " * 8 for number in range(64)]
DUPLICATES = ["a", "a", "b", "a"]
CALLERS = 8
KEY = "floor:{}"


def vector_of(text: str, seed: int = 0) -> list[float]:
    """Return the one right vector of a text."""
    numbers = np.random.default_rng([seed, *text.encode()]).standard_normal(WIDTH)
    return [float(x) for x in numbers.astype(np.float32)]


class LangChainModel(Embeddings):
    """A model for LangChain."""

    def __init__(self, seed: int = 0) -> None:
        self.sent: list[str] = []
        self.seed = seed

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sent += texts
        time.sleep(0.02)
        return [vector_of(text, self.seed) for text in texts]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sent += texts
        await asyncio.sleep(0.02)
        return [vector_of(text, self.seed) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class LlamaModel(BaseEmbedding):
    """A model for LlamaIndex."""

    seed: int = 0
    sent: list[str] = []  # noqa: RUF012  (pydantic copies it)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self.sent.extend(texts)
        return [vector_of(text, self.seed) for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0.02)
        return self._get_text_embeddings(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def langchain_laws() -> dict[str, object]:
    def over(model: LangChainModel, store: InMemoryByteStore) -> CacheBackedEmbeddings:
        return CacheBackedEmbeddings.from_bytes_store(model, store, key_encoder="sha256")

    model = LangChainModel()
    over(model, InMemoryByteStore()).embed_documents(DUPLICATES)
    many, shared = LangChainModel(), InMemoryByteStore()
    caches = [over(many, shared) for _ in range(CALLERS)]

    async def at_once() -> None:
        await asyncio.gather(*(cache.aembed_documents(["a"]) for cache in caches))

    asyncio.run(at_once())
    store = InMemoryByteStore()
    over(LangChainModel(1), store).embed_documents(["a"])
    other = over(LangChainModel(2), store).embed_documents(["a"])
    return laws(len(model.sent), len(many.sent), other[0] != vector_of("a", 2), None)


def llama_index_laws() -> dict[str, object]:
    model = LlamaModel(embeddings_cache=SimpleKVStore())
    model.get_text_embedding_batch(DUPLICATES)
    many = LlamaModel(embeddings_cache=SimpleKVStore())

    async def at_once() -> None:
        await asyncio.gather(*(many.aget_text_embedding_batch(["a"]) for _ in range(CALLERS)))

    asyncio.run(at_once())
    store = SimpleKVStore()
    LlamaModel(embeddings_cache=store, seed=1).get_text_embedding_batch(["a"])
    other = LlamaModel(embeddings_cache=store, seed=2).get_text_embedding_batch(["a"])
    return laws(len(model.sent), len(many.sent), other[0] != vector_of("a", 2), None)


class Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible server; its answers are out of order where a text says so."""

    sent: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = body["input"]
        Server.sent += texts
        time.sleep(0.02)
        items = [
            {"object": "embedding", "index": place, "embedding": vector_of(text)}
            for place, text in enumerate(texts)
        ]
        if any("permuted" in text for text in texts):
            items.reverse()
        reply = {"object": "list", "data": items, "model": body["model"]}
        reply["usage"] = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        told = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def start_litellm() -> Callable[[list[str]], Any]:
    """Start a server; return what asks it by LiteLLM, which caches in memory."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    litellm.cache = Cache()
    litellm.suppress_debug_info = True
    base_url = f"http://127.0.0.1:{server.server_port}/v1"

    def ask(texts: list[str]) -> Any:  # noqa: ANN401  (LiteLLM's own)
        return litellm.aembedding(
            model="openai/embed", input=texts, api_base=base_url, api_key="k", caching=True
        )

    return ask


def litellm_laws(ask: Callable[[list[str]], Any]) -> dict[str, object]:
    async def run() -> dict[str, object]:
        Server.sent = []
        await ask(DUPLICATES)
        duplicates = len(Server.sent)
        Server.sent = []
        await asyncio.gather(*(ask(["c"]) for _ in range(CALLERS)))
        callers = len(Server.sent)
        texts = ["permuted 1", "permuted 2", "permuted 3"]
        wrong = 0
        for _ in range(2):  # as computed, and then from the cache
            reply = await ask(texts)
            await asyncio.sleep(0.5)
            data = [item if isinstance(item, dict) else item.model_dump() for item in reply.data]
            wrong = sum(
                not np.allclose(item["embedding"], vector_of(text), atol=1e-6)
                for item, text in zip(data, texts, strict=True)
            )
        return laws(duplicates, callers, None, wrong)

    return asyncio.run(run())


def laws(
    duplicates: int,
    callers: int,
    swapped: bool | None,  # noqa: FBT001
    wrong: int | None,
) -> dict[str, object]:
    """Return how much was sent for each text that was missing, and what was wrong."""
    return {
        "duplicates_ratio": duplicates / len(set(DUPLICATES)),
        "callers_ratio": float(callers),
        "other_models_vector": swapped,
        "wrong_of_3_permuted": wrong,
    }


class Timed:
    """Hits of each, with what they need set up."""

    def __init__(self, port: int) -> None:
        self._redis = redis.Redis(port=port)
        self._async = redis.asyncio.Redis(port=port)
        self._loop = asyncio.new_event_loop()
        vectors = {text: vector_of(text) for text in TEXTS}
        for text, vector in vectors.items():
            self._redis.set(KEY.format(text), np.array(vector, np.float32).tobytes())
        self._redisvl = EmbeddingsCache(redis_url=f"redis://127.0.0.1:{port}")
        self._redisvl.mset(
            [
                {"content": text, "model_name": "m", "embedding": vector}
                for text, vector in vectors.items()
            ]
        )
        self._langchain = CacheBackedEmbeddings.from_bytes_store(
            LangChainModel(), InMemoryByteStore(), namespace="m", key_encoder="sha256"
        )
        self._langchain.embed_documents(TEXTS)
        self._llama = LlamaModel(embeddings_cache=SimpleKVStore(), embed_batch_size=64)
        self._llama.get_text_embedding_batch(TEXTS)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of a vector in Redis."""
        (key, *_) = self._redis.keys("embedcache:*")
        return {
            "redis-py, raw": self._redis.memory_usage(KEY.format(TEXTS[0])),
            "redisvl": self._redis.memory_usage(key),
            "langchain, JSON": len(json.dumps(vector_of(TEXTS[0]))),
        }

    def redis_py(self, texts: list[str]) -> object:
        """The floor: bytes from Redis, as an array."""
        if len(texts) == 1:
            return np.frombuffer(self._redis.get(KEY.format(texts[0])), np.float32)
        values = self._redis.mget([KEY.format(text) for text in texts])
        return [np.frombuffer(value, np.float32) for value in values]

    async def redis_py_async(self, texts: list[str]) -> object:
        """The same, by its client for event loops, which is what a server would have."""
        if len(texts) == 1:
            return np.frombuffer(await self._async.get(KEY.format(texts[0])), np.float32)
        values = await self._async.mget([KEY.format(text) for text in texts])
        return [np.frombuffer(value, np.float32) for value in values]

    def time(self, name: str, texts: list[str], rounds: int) -> list[float]:
        """Return the seconds and the CPU seconds of so many hits."""
        hit = getattr(self, name)

        async def run() -> list[float]:
            await hit(texts)
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(rounds):
                await hit(texts)
            return [time.perf_counter() - began, time.process_time() - cpu]

        if asyncio.iscoroutinefunction(hit):
            return self._loop.run_until_complete(run())
        hit(texts)
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(rounds):
            hit(texts)
        return [time.perf_counter() - began, time.process_time() - cpu]

    def redisvl(self, texts: list[str]) -> object:
        """RedisVL's EmbeddingsCache."""
        if len(texts) == 1:
            return self._redisvl.get(texts[0], "m")
        return self._redisvl.mget(texts, "m")

    def langchain(self, texts: list[str]) -> object:
        """LangChain's CacheBackedEmbeddings, in memory."""
        return self._langchain.embed_documents(texts)

    def llama_index(self, texts: list[str]) -> object:
        """LlamaIndex's embeddings_cache, in memory."""
        return self._llama.get_text_embedding_batch(texts)


def main() -> None:
    """Answer lines."""
    timed = Timed(int(sys.argv[1]))
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "laws":
            told: object = {
                f"langchain {version('langchain-classic')}": langchain_laws(),
                f"llama-index {version('llama-index-core')}": llama_index_laws(),
                f"litellm {version('litellm')}": litellm_laws(start_litellm()),
            }
        elif word == "size":
            told = timed.sizes()
        else:
            told = timed.time(rest[0], TEXTS[: int(rest[1])], int(rest[2]))
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
