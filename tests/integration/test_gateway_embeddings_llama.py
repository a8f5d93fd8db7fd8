"""Vectors of a real llama.cpp, through the gateway."""

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import openai
import pytest
from support.gateway import running_gateway
from support.llama_embeddings import llama_embeddings

from stepwell.engines.weights import WEIGHTS_PACKAGE

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(
        not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec(WEIGHTS_PACKAGE)),
        reason="not installed: xllamacpp and its weights",
    ),
]

ENCODINGS: tuple[Literal["base64", "float"], ...] = ("base64", "base64", "float")
TEXTS = ["The cat sleeps on the mat.", "猫在垫子上睡觉。", "Interest rates rose again."]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with llama_embeddings() as url:
        yield url


async def test_a_hit_has_the_bits_of_the_server(base_url: str, tmp_path: Path) -> None:
    """In both encodings, from memory and from disk, with the tokens it counted."""
    quiet = {"embedding": {"canary_seconds": 0}}
    async with openai.AsyncOpenAI(base_url=base_url, api_key="sk-a") as server:
        direct = await server.embeddings.create(model="smol", input=TEXTS)
    wanted = np.array([item.embedding for item in direct.data], np.float32)
    for caches in (["MISS", "HIT", "HIT"], ["HIT"] * 3):
        async with running_gateway(tmp_path / "data", base_url, quiet) as gateway:
            client = openai.AsyncOpenAI(base_url=f"{gateway.origin}/v1", api_key="sk-a")
            async with client:
                for cache, encoding in zip(caches, ENCODINGS, strict=True):
                    raw = await client.embeddings.with_raw_response.create(
                        model="smol", input=TEXTS, encoding_format=encoding
                    )
                    assert raw.headers["x-cache"] == cache
                    made = raw.parse()
                    assert made.usage.total_tokens == direct.usage.total_tokens
                    found = [_numbers(item.embedding) for item in made.data]
                    # Computed anew they may differ in the last bits; kept, they do not.
                    assert np.allclose(found, wanted, atol=1e-5)
                    if cache == "MISS":
                        wanted = np.array(found)
                    assert np.array_equal(found, wanted)


def _numbers(embedding: object) -> npt.NDArray[np.float32]:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), "<f4")
    return np.array(embedding, np.float32)


async def test_its_refusal_reaches_the_caller(base_url: str, tmp_path: Path) -> None:
    """A text that is longer than it reads."""
    async with running_gateway(tmp_path / "data", base_url) as gateway:
        body = {"model": "smol", "input": "word " * 2_000}
        answer = await gateway.post(body, path="/v1/embeddings")
        assert answer.status in {400, 500}
        assert b"too large" in answer.body
        assert answer.headers["x-cache"] == "MISS"
