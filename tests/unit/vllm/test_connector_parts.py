"""The connector's smaller parts: settings, scope, weights, lookups, names of blocks."""

import json
import os
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.kv_blocks import make_tokens

from stepwell.core.clock import SystemClock
from stepwell.core.errors import ConfigError
from stepwell.core.kv import block_id
from stepwell.testing.clock import HandClock
from stepwell.vllm.asked import Asked, Lora, Scopes
from stepwell.vllm.distrust import PAUSE_SECONDS, Distrust
from stepwell.vllm.facts import Machine, check_supported, scope_of
from stepwell.vllm.lookups import NOTHING, Found, Lookups
from stepwell.vllm.plan import name_blocks, shard_digest
from stepwell.vllm.settings import ConnectorSettings, parse_settings
from stepwell.vllm.weights import WeightsFiles

MACHINE = Machine("0.32.0", "x86_64 amx=True avx512=True")


class FullAttentionSpec:
    """Named as vLLM's."""

    def __init__(self, *, non_causal: bool = False) -> None:
        self.non_causal = non_causal


class MambaSpec:
    """Named as vLLM's."""


def vllm_config() -> Any:
    """Return what the connector reads of vLLM's configuration."""
    hf = {"model_type": "llama", "rope_parameters": {"rope_theta": 1e5}, "_name_or_path": "/m"}
    return SimpleNamespace(
        kv_transfer_config=SimpleNamespace(kv_load_failure_policy="recompute"),
        speculative_config=None,
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=1,
            world_size=1,
        ),
        model_config=SimpleNamespace(
            dtype="torch.bfloat16",
            quantization=None,
            max_model_len=4096,
            hf_config=SimpleNamespace(to_dict=lambda: hf),
        ),
        cache_config=SimpleNamespace(cache_dtype="auto", block_size=32),
        attention_config=SimpleNamespace(backend=None),
        hf=hf,
    )


def kv_cache_config(*specs: object) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=spec) for spec in specs or [FullAttentionSpec()]]
    return SimpleNamespace(kv_cache_groups=groups, kv_cache_layout="LBHNC")


def scope_digest(config: Any, machine: Machine = MACHINE, weights: str = "w") -> bytes:
    return scope_of(config, kv_cache_config(), machine, weights).digest()


def test_settings() -> None:
    """What is left out has a default; what is wrong is named."""
    given = {"folder": "/kv", "max_bytes": 10}
    assert parse_settings(given) == ConnectorSettings(folder="/kv", max_bytes=10)
    for wrong, what in (
        ({"folder": "/kv"}, "max_bytes"),
        ({**given, "max_bytes": 0}, "max_bytes"),
        ({**given, "max_bytes": "1GB"}, "max_bytes"),
        ({**given, "folder": ""}, "folder"),
        ({**given, "foldr": "/kv"}, "foldr"),
        ({**given, "load_timeout_seconds": 0}, "load_timeout_seconds"),
    ):
        with pytest.raises(ConfigError, match=rf"StepwellConnector: .*{what}"):
            parse_settings(wrong)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda c: setattr(c.kv_transfer_config, "kv_load_failure_policy", "fail"), "recompute"),
        (lambda c: setattr(c, "speculative_config", object()), "speculative"),
        (lambda c: setattr(c.parallel_config, "decode_context_parallel_size", 2), "context"),
        (lambda c: setattr(c.parallel_config, "prefill_context_parallel_size", 2), "context"),
    ],
)
def test_what_is_not_supported(change: Any, match: str) -> None:
    """A start that would end in failed requests or wrong blocks fails at once, and says why."""
    config = vllm_config()
    check_supported(config, kv_cache_config())
    change(config)
    with pytest.raises(ConfigError, match=match):
        check_supported(config, kv_cache_config())


@pytest.mark.parametrize(
    "specs",
    [
        (MambaSpec(),),
        (FullAttentionSpec(), FullAttentionSpec()),
        (FullAttentionSpec(non_causal=True),),
    ],
)
def test_layers_that_are_not_supported(specs: tuple[object, ...]) -> None:
    """Only pages that hold keys and values of all tokens can be kept."""
    with pytest.raises(ConfigError, match="full attention"):
        check_supported(vllm_config(), kv_cache_config(*specs))


def test_scope_depends_on_all_that_counts() -> None:
    """Each of these gives other keys and values, or lays them out otherwise."""

    def changed(**paths: object) -> bytes:
        config = vllm_config()
        for path, value in paths.items():
            *parts, name = path.split("__")
            target = config
            for part in parts:
                target = target[part] if isinstance(target, dict) else getattr(target, part)
            if isinstance(target, dict):
                target[name] = value
            else:
                setattr(target, name, value)
        return scope_digest(config)

    digests = [
        scope_digest(vllm_config()),
        scope_digest(vllm_config(), weights="other"),
        scope_digest(vllm_config(), replace(MACHINE, vllm_version="0.33.0")),
        scope_digest(vllm_config(), replace(MACHINE, device="x86_64 amx=False avx512=True")),
        changed(model_config__dtype="torch.float32"),
        changed(model_config__quantization="fp8"),
        changed(cache_config__cache_dtype="fp8"),
        changed(cache_config__block_size=16),
        changed(attention_config__backend="FLASH_ATTN"),
        changed(parallel_config__world_size=2),
        changed(parallel_config__world_size=2, parallel_config__pipeline_parallel_size=2),
        changed(hf__rope_parameters={"rope_theta": 1e4}),
        changed(hf__rope_parameters={"rope_type": "longrope"}),
        changed(hf__rope_parameters={"rope_type": "longrope"}, model_config__max_model_len=8192),
    ]
    assert len(set(digests)) == len(digests)
    assert changed(hf___name_or_path="/elsewhere") == digests[0]
    assert changed(model_config__max_model_len=8192) == digests[0]


def test_salt_is_no_adapter() -> None:
    """The same word as a salt and as an adapter's name makes two scopes; so do two versions."""
    scopes = Scopes(scope_of(vllm_config(), kv_cache_config(), MACHINE, "w"), str)
    asked = Asked("r", [], None, None)
    digests = {
        scopes.digest_of(asked),
        scopes.digest_of(replace(asked, salt="x")),
        scopes.digest_of(replace(asked, salt="")),
        scopes.digest_of(replace(asked, lora=Lora("x", 1, "1"))),
        scopes.digest_of(replace(asked, lora=Lora("x", 2, "2"))),
        scopes.digest_of(replace(asked, lora=Lora("x", 1, "1"), salt="x")),
        scopes.digest_of(replace(asked, salt="\ud800")),
    }
    assert len(digests) == 7
    assert None not in digests


def test_weights(tmp_path: Path) -> None:
    """Other bytes, names or files are another version; the path is none, and reading is rare."""
    model, digests = tmp_path / "model", WeightsFiles(tmp_path / "digests")
    model.mkdir()
    (model / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="weights_version"):
        digests.model_version(model)
    (model / "a.safetensors").write_bytes(b"one")
    (model / "b.safetensors").write_bytes(b"two")
    first = digests.model_version(model)
    assert first == WeightsFiles(tmp_path / "none").model_version(model)
    model.rename(tmp_path / "moved")
    assert digests.model_version(tmp_path / "moved") == first
    moved = tmp_path / "moved"
    status = (moved / "a.safetensors").stat()
    (moved / "a.safetensors").write_bytes(b"eno")
    os.utime(moved / "a.safetensors", ns=(status.st_atime_ns, status.st_mtime_ns))
    second = digests.model_version(moved)
    (moved / "b.safetensors").rename(moved / "c.safetensors")
    third = digests.model_version(moved)
    assert len({first, second, third}) == 3


def test_adapters_weights(tmp_path: Path) -> None:
    """An adapter that cannot be read has no version; its configuration is part of it."""
    digests = WeightsFiles(tmp_path / "digests")
    assert digests.adapter_version(tmp_path / "nowhere") is None
    (tmp_path / "adapter_model.safetensors").write_bytes(b"weights")
    first = digests.adapter_version(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 16}))
    assert digests.adapter_version(tmp_path) not in {first, None}


ASKED = Asked("request", [1, 2, 3], None, None)


def test_lookup_that_takes_long() -> None:
    """It is not waited for: it is asked for again, and after its time nothing is found."""
    clock, release = HandClock(), Event()
    found = Found(bytes(16), ())

    def search(asked: Asked) -> Found:
        release.wait(5.0)
        return found

    lookups = Lookups(search, timeout_seconds=1.0, clock=clock)
    assert lookups.find(ASKED) is None
    assert lookups.find(ASKED) is None
    clock.seconds += 2.0
    assert lookups.find(ASKED) == NOTHING
    release.set()
    assert lookups.find(ASKED) == NOTHING
    assert lookups.failures == 1
    lookups.drop(ASKED.request_id)
    while (answer := lookups.find(ASKED)) is None:
        pass
    assert answer == found
    lookups.close()


def test_lookup_that_fails() -> None:
    """What the search raises is counted, and nothing is found; the next one is searched."""

    def search(asked: Asked) -> Found:
        if asked.request_id == "one":
            raise OSError("gone")
        return Found(bytes(16), ())

    lookups = Lookups(search, timeout_seconds=5.0, clock=SystemClock())
    found = []
    for name in ("one", "two"):
        while (answer := lookups.find(replace(ASKED, request_id=name))) is None:
            pass
        found.append(answer)
    assert found == [NOTHING, Found(bytes(16), ())]
    assert lookups.failures == 1
    lookups.close()


def test_distrust_ends() -> None:
    """A block is trusted again after a while, or at once when it was mended, but once only."""
    clock = HandClock()
    distrust = Distrust(clock)
    one, other = block_id(bytes(16), b"1"), block_id(bytes(16), b"2")
    distrust.failed(other)
    assert distrust.trusted((one, other)) == 1
    distrust.renewed([other])
    assert distrust.trusted((one, other)) == 2
    distrust.failed(other)
    distrust.renewed([other])
    assert distrust.trusted((one, other)) == 1
    clock.seconds += PAUSE_SECONDS
    assert distrust.trusted((one, other)) == 2


@given(st.lists(st.integers(0, 2**31 - 1), max_size=50), st.integers(1, 7))
def test_names_of_blocks(tokens: list[int], size: int) -> None:
    """They are those of `core.kv`, follow one another, and cover all whole blocks."""
    before, blocks = b"s" * 16, list(name_blocks(b"s" * 16, tokens, size))
    assert len(blocks) == len(tokens) // size
    for number, block in enumerate(blocks):
        own = make_tokens(*tokens[number * size : (number + 1) * size])
        assert (block.before, block.tokens, block.position) == (before, own, number * size)
        assert block.id == block_id(before, own)
        before = block.id


def test_shards_differ() -> None:
    """Each worker keeps its part apart; a single one needs no name of its own."""
    digest = bytes(range(16))
    assert shard_digest(digest, 0, 1) == digest
    assert len({shard_digest(digest, n, of) for of in (1, 2, 3) for n in range(of)}) == 6
