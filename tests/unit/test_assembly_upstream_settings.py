"""What the settings of a model server may hold, and what is said of the rest."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from stepwell.assembly.checks import check
from stepwell.assembly.engines import torch_settings
from stepwell.assembly.settings import Settings, load_settings, parse_settings
from stepwell.assembly.settings_upstreams import Torch, Upstream
from stepwell.core.errors import ConfigError

TWO = ["http://a:1/v1", "http://b:1/v1"]
EVENTS = ["tcp://a:1", "tcp://b:1"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "base_url is missing, or replicas"),
        ({"base_url": TWO[0], "replicas": TWO}, "base_url and replicas do not go together"),
        ({"replicas": [TWO[0], "http://A:1/v1/"]}, "'http://A:1/v1/' is twice in replicas"),
        ({"kind": "torch", "replicas": TWO}, 'replicas does not go with kind = "torch"'),
        ({"replicas": TWO, "prefix": {"salt": "tenant"}}, "prefix.salt = .tenant. goes with"),
        (
            {"base_url": TWO[0], "engine": "llamacpp", "prefix": {"salt": "tenant"}},
            "others know no salts",
        ),
        (
            {"replicas": TWO, "engine": "vllm", "prefix": {"kv_events": ["tcp://a:5557"]}},
            "prefix.kv_events has 1 addresses for 2 replicas",
        ),
        (
            {"base_url": TWO[0], "engine": "vllm", "prefix": {"kv_replays": ["tcp://a:5557"]}},
            "prefix.kv_replays goes with prefix.kv_events",
        ),
        (
            {"base_url": TWO[0], "engine": "vllm", "prefix": {"kv_events": ["tcp://a"]}},
            "kv_events",
        ),
        (
            {"replicas": TWO, "prefix": {"block_tokens": 32, "replica_tokens": 31}},
            r"llm\.prefix: replica_tokens is 31; it must be at least block_tokens, which is 32",
        ),
        (
            {"replicas": TWO, "engine": "vllm", "prefix": {"kv_events": EVENTS[:1] * 2}},
            r"upstreams\.llm\.prefix: 'tcp://a:1' is twice in kv_events and kv_replays; each",
        ),
        (
            {
                "replicas": TWO,
                "engine": "vllm",
                "prefix": {"kv_events": EVENTS, "kv_replays": ["tcp://c:1", "tcp://A:1"]},
            },
            "'tcp://A:1' is twice in kv_events and kv_replays",
        ),
    ],
)
def test_what_does_not_go_together(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_settings({"upstreams": {"llm": table}})


@pytest.mark.parametrize("name", ["kv_events", "kv_replays"])
@pytest.mark.parametrize("port", [0, 65_536, 99_999])
def test_a_port_that_is_none(name: str, port: int) -> None:
    """ZeroMQ takes it, and never hears anything."""
    addresses = {"kv_events": ["tcp://a:1"], name: [f"tcp://b:{port}"]}
    table = {"base_url": TWO[0], "engine": "vllm", "prefix": addresses}
    with pytest.raises(ConfigError, match=f"'tcp://b:{port}' has a port that is none"):
        parse_settings({"upstreams": {"llm": table}})


def test_a_replica_of_one_block() -> None:
    table = {"replicas": TWO, "prefix": {"block_tokens": 16, "replica_tokens": 16}}
    assert parse_settings({"upstreams": {"llm": table}}).upstreams["llm"].replicas == tuple(TWO)


def test_a_rewrite_that_is_named_twice() -> None:
    with pytest.raises(ConfigError, match=r"^prefix: 'tools' is twice in rewrite; each"):
        parse_settings({"prefix": {"rewrite": ["tools", "ids", "tools"]}})


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:5557", "tcp://[::1]:5557", "ipc:///run/e"])
def test_where_kv_events_may_be(address: str) -> None:
    table = {"base_url": TWO[0], "engine": "vllm", "prefix": {"kv_events": [address]}}
    assert parse_settings({"upstreams": {"llm": table}}).upstreams["llm"].is_salted


def test_a_model_that_no_request_could_reach(tmp_path: Any) -> None:
    (tmp_path / "tiny").mkdir()
    weights = Torch(weights=str(tmp_path / "tiny"))
    own = Upstream(kind="torch", models=("nope", "no*"), torch=weights)
    with pytest.raises(ConfigError, match=r"upstreams.own.models is \['nope', 'no\*'\].*'tiny'"):
        torch_settings("own", own, tmp_path)
    own = Upstream(kind="torch", models=("t*",), torch=weights)
    assert torch_settings("own", own, tmp_path).model == "tiny"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "which cannot be read (No such file or directory)"),
        ({}, "a folder without config.json and tokenizer.json and *.safetensors"),
        (
            {"config.json": b"{}", "pytorch_model.bin": b"", "tokenizer.json": b"{}"},
            "a folder without *.safetensors",
        ),
        (b"", "which is not a GGUF file"),
        (b"PK\3\4", "which is not a GGUF file"),
    ],
)
def test_weights_that_are_none(
    tmp_path: Path, files: dict[str, bytes] | bytes | None, said: str
) -> None:
    """Named by key and value before anything starts, with what would be right."""
    weights = tmp_path / "m"
    match files:
        case bytes():
            weights.write_bytes(files)
        case dict():
            weights.mkdir()
            for name, content in files.items():
                (weights / name).write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        check(own_model(tmp_path), bytes(32))
    expected = f"upstreams.own.torch.weights is '{weights}', {said}. Allowed: a GGUF file, or"
    assert str(refused.value).startswith(expected)


def test_weights_that_may_be_some(tmp_path: Path) -> None:
    """Whether they can be loaded is seen when they are."""
    (tmp_path / "m").write_bytes(b"GGUF\3")
    check(own_model(tmp_path), bytes(32))
    with pytest.raises(ConfigError, match=r"upstreams.own.models is \['x'\]"):
        check(own_model(tmp_path, models=["x"]), bytes(32))


def own_model(folder: Path, **table: Any) -> Settings:
    """Return settings, as a file in ``folder`` has them, of a model that is to be there as "m"."""
    (folder / "stepwell.toml").write_text(
        tomli_w.dumps({"upstreams": {"own": {"kind": "torch", "torch": {"weights": "m"}, **table}}})
    )
    return load_settings(folder / "stepwell.toml")
