"""What ``[embedding]`` may hold, and what is said of the rest."""

from typing import Any

import pytest

from stepwell.assembly import embedding_models
from stepwell.assembly.checks import check
from stepwell.assembly.settings import Settings, parse_settings
from stepwell.core.errors import ConfigError

SECRET = bytes(32)
UPSTREAMS = {"llm": {"base_url": "http://a:1/v1"}}


def settings(table: dict[str, Any], **more: Any) -> Settings:
    return parse_settings({"upstreams": UPSTREAMS, "embedding": table, **more})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"precision": "f64"}, r"embedding.precision is 'f64'; allowed: 'f16', 'f32', 'i8'"),
        ({"ttl_seconds": 1}, r"embedding.ttl_seconds is 1; allowed: a number from 60"),
        ({"memory_bytes": -1}, r"embedding.memory_bytes is -1; allowed: an integer from 0"),
        ({"max_inputs": 0}, r"embedding.max_inputs is 0; allowed: an integer from 1 to 100000"),
        ({"size": 1}, r"embedding.size is not a setting"),
        ({"models": [{"revision": "2"}]}, r"embedding.models.0.model is missing"),
        ({"models": [{"model": "m", "max_texts": 0}]}, r"embedding.models.0.max_texts is 0"),
        ({"share": True}, r'embedding.share = true needs auth.mode = "keys" or "shared"'),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, Any], said: str) -> None:
    """The key, its value and what is allowed."""
    with pytest.raises(ConfigError, match=said):
        settings(table)


def test_a_model_of_no_upstream() -> None:
    """A name that is no upstream's would never count."""
    unknown = settings({"models": [{"model": "m"}, {"model": "*", "upstream": "lm"}]})
    with pytest.raises(ConfigError, match=r"models.1.upstream is 'lm'; allowed: llm\."):
        check(unknown, SECRET)
    check(settings({"models": [{"model": "m", "upstream": "llm"}]}), SECRET)


def test_numpy_decides_only_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, ``auto`` is off and ``on`` is an error that says how to mend it."""
    tables = {name: settings({"enabled": name}) for name in ("auto", "on", "off")}
    wants = embedding_models.wants_embedding
    assert [wants(table) for table in tables.values()] == [True, True, False]
    monkeypatch.setattr(embedding_models, "find_spec", lambda _: None)
    assert not wants(tables["auto"])
    assert not wants(tables["off"])
    with pytest.raises(ConfigError, match=r"pip install '\.\[embedding\]'"):
        wants(tables["on"])
