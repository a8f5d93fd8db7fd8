"""What the settings of a model server may hold, and what is said of the rest."""

from typing import Any

import pytest

from stepwell.assembly.engines import torch_settings
from stepwell.assembly.settings import parse_settings
from stepwell.assembly.settings_upstreams import Torch, Upstream
from stepwell.core.errors import ConfigError

TWO = ["http://a:1/v1", "http://b:1/v1"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "base_url is missing, or replicas"),
        ({"base_url": TWO[0], "replicas": TWO}, "base_url and replicas do not go together"),
        ({"replicas": [TWO[0], "http://A:1/v1/"]}, "replicas has 'http://A:1/v1/' twice"),
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
    ],
)
def test_what_does_not_go_together(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_settings({"upstreams": {"llm": table}})


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
