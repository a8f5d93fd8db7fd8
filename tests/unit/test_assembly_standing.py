"""From ``[[prefix.warm]]`` to the calls by which replicas read those prompts."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.assembly.settings import Settings, load_settings, parse_settings
from stepwell.assembly.standing import standing_prompts, warmed_upstreams
from stepwell.core.errors import ConfigError
from stepwell.core.steering import Hold
from stepwell.keys.namespace import Tenant

SECRET = bytes(16)
LLM = {"replicas": ["http://a/v1", "http://b/v1"], "models": ["m*"]}
KEYS = {"mode": "keys", "keys": [{"tenant": "shop", "key_sha256": "0" * 64}]}


def settings(*warm: dict[str, Any], **tables: Any) -> Settings:
    upstreams = tables.pop("upstreams", {"other": {"base_url": "http://c/v1", "models": ["x"]}})
    prefix = {"warm": list(warm), **tables.pop("prefix", {})}
    return parse_settings({"upstreams": {**upstreams, "llm": LLM}, "prefix": prefix, **tables})


def body(given: Settings) -> Any:
    (prompt,) = standing_prompts(given, SECRET)
    return json.loads(prompt.call.body)


def test_begins_as_requests_do(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    (tmp_path / "system.txt").write_text("Be brief.\n")
    file = tmp_path / "stepwell.toml"
    file.write_text(
        '[[prefix.warm]]\nmodel = "m1"\nsystem_file = "system.txt"\ntools_file = "tools.json"\n'
        'every_seconds = 60\n[upstreams.llm]\nbase_url = "http://a/v1"\n'
    )
    (prompt,) = standing_prompts(load_settings(file), SECRET)
    assert (prompt.name, prompt.upstream, prompt.every_seconds) == ("prefix.warm.0", "llm", 60)
    assert json.loads(prompt.call.body) == {
        "model": "m1",
        "messages": [
            {"role": "system", "content": "Be brief.\n"},
            {"role": "user", "content": "Hello"},
        ],
        "tools": tools,
        "max_tokens": 1,
        "temperature": 0,
    }


def test_rewrites_are_applied_as_to_requests() -> None:
    warm = {"model": "m", "system": "Be brief.   \n\n\n\nBe kind."}
    assert body(settings(warm))["messages"][0]["content"] == warm["system"]
    told = body(settings(warm, prefix={"rewrite": ["whitespace"]}))
    assert told["messages"][0]["content"] == "Be brief.\n\nBe kind."


def test_whose_requests_it_begins() -> None:
    warm = {"model": "m", "system": "Be brief."}

    def namespace(given: Settings) -> object:
        (prompt,) = standing_prompts(given, SECRET)
        return prompt.call.namespace

    shop = settings({**warm, "tenant": "shop"}, auth=KEYS)
    assert namespace(shop) == Tenant("name:shop", SECRET).own_namespace
    shared = settings(warm, auth={"mode": "shared"})
    assert namespace(shared) == Tenant("shared", SECRET).own_namespace
    assert namespace(settings(warm)) is None  # no salts here: anybody's will do


def test_whose_replicas_read_it() -> None:
    warm = {"model": "m", "system": "Be brief."}
    assert warmed_upstreams(settings(warm)) == {"prefix.warm.0": "llm"}
    assert warmed_upstreams(settings({**warm, "upstream": "other"})) == {"prefix.warm.0": "other"}
    assert warmed_upstreams(settings()) == {}


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        ({"upstream": "nobody"}, "prefix.warm.0.upstream is 'nobody'; allowed: other, llm"),
        ({"model": "gpt"}, "prefix.warm.0.model is 'gpt', which no upstream serves"),
        ({"tenant": "shop"}, "tenant is 'shop'; it goes with auth.mode = \"keys\""),
        ({"system": None, "system_file": "/none"}, "system_file: /none cannot be read"),
        ({"tools_file": "/none"}, "tools_file: /none cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named(warm: dict[str, Any], expected: str) -> None:
    given = {"model": "m", "system": "Be brief.", **warm}
    table = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(ConfigError, match=expected.replace("(", r"\(")):
        standing_prompts(settings(table), SECRET)


def test_another_tenant_than_there_is() -> None:
    warm = {"model": "m", "system": "Be brief.", "tenant": "shp"}
    with pytest.raises(ConfigError, match="tenant is 'shp'; allowed: shop"):
        standing_prompts(settings(warm, auth=KEYS), SECRET)


@pytest.mark.parametrize("auth", [{}, KEYS])
def test_nobodys_prompt_where_tenants_are_kept_apart(auth: dict[str, Any]) -> None:
    upstreams: dict[str, dict[str, Any]] = {"salted": {**LLM, "engine": "vllm"}}
    warm = {"model": "m", "system": "Be brief.", "upstream": "salted"}
    with pytest.raises(ConfigError, match=r"prefix.warm.0.tenant is missing.*salt = \"off\""):
        standing_prompts(settings(warm, upstreams=upstreams, auth=auth), SECRET)
    upstreams["salted"]["prefix"] = {"salt": "off"}
    assert standing_prompts(settings(warm, upstreams=upstreams, auth=auth), SECRET)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"{", "is not JSON"),
        (b"{}", "a JSON list"),
        (b"[]", "a JSON list"),
        (b'["search", 3]', "a JSON list of objects"),
    ],
)
def test_tools_that_are_none(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(content)
    warm = {"model": "m", "system": "Be brief.", "tools_file": str(file)}
    with pytest.raises(ConfigError, match=expected):
        standing_prompts(settings(warm), SECRET)


@pytest.mark.parametrize(
    "table", [{"model": "m"}, {"model": "m", "system": "a", "system_file": "b"}]
)
def test_one_system_prompt(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="needs exactly one of system and system_file"):
        settings(table)


def test_what_only_our_own_engine_holds() -> None:
    """Pinned, or public though tenants are kept apart: elsewhere neither can be had."""
    warm = {"model": "t", "system": "Be brief.", "upstream": "ours"}
    ours = {"ours": {"kind": "torch"}}
    (prompt,) = standing_prompts(
        settings({**warm, "public": True, "pin_seconds": 60}, upstreams=ours), SECRET
    )
    assert (prompt.hold, prompt.call.namespace) == (Hold(60, is_public=True), None)
    for key, value in {"public": True, "pin_seconds": 60}.items():
        given = settings({"model": "m", "system": "Be brief.", key: value})
        with pytest.raises(ConfigError, match=f'prefix.warm.0.{key} goes with.*"torch"'):
            standing_prompts(given, SECRET)
    with pytest.raises(ConfigError, match="public and tenant do not go together"):
        settings({**warm, "public": True, "tenant": "shop"}, upstreams=ours, auth=KEYS)
    with pytest.raises(ConfigError, match="tenant is missing"):
        standing_prompts(settings({**warm, "pin_seconds": 60}, upstreams=ours), SECRET)
