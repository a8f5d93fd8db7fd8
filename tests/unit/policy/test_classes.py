"""Request classes: what may stand in one, and what is built in."""

from typing import Any

import pytest

from stepwell.core.errors import ConfigError
from stepwell.core.names import LayerName
from stepwell.policy.classes import BUILT_IN_CLASSES, MAX_SECONDS, RequestClass

EXACT = (LayerName.EXACT,)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("ttl_seconds", -1, "0 to 31622400"),
        ("ttl_seconds", float("nan"), "0 to 31622400"),
        ("ttl_seconds", float("inf"), "0 to 31622400"),
        ("ttl_seconds", MAX_SECONDS + 1, "0 to 31622400"),
        ("stale_while_revalidate_seconds", -0.5, "0 to 31622400"),
        ("stale_if_error_seconds", float("inf"), "0 to 31622400"),
        ("layers", (), "exact, semantic"),
        ("layers", (LayerName.EXACT, LayerName.EXACT), "once each"),
        ("layers", (LayerName.SEMANTIC, LayerName.EXACT), "in this order"),
        ("sources", ("",), "1 to 128"),
        ("sources", ("a b",), "without blanks"),
        ("sources", ("a,b",), "without blanks"),
        ("sources", ("a=b",), "without blanks"),
        ("sources", ("a", "a"), "different"),
        ("sources", tuple(f"s{n}" for n in range(17)), "at most 16"),
        ("max_answer_bytes", 0, "1 to 67108864"),
        ("max_answer_bytes", (64 << 20) + 1, "1 to 67108864"),
        ("level", "loose", "strict, general, faq"),
    ],
)
def test_bad_value_is_refused_with_key_value_and_range(
    key: str, value: object, allowed: str
) -> None:
    """A value out of range is refused, and the message says which, what, and what would do."""
    values: dict[str, Any] = {"name": "own", "layers": EXACT, "ttl_seconds": 60} | {key: value}
    with pytest.raises(ConfigError) as error:
        RequestClass(**values)
    assert f"classes.own.{key} is {value!r}" in str(error.value)
    assert allowed in str(error.value)


@pytest.mark.parametrize("name", ["", "Own", "1own", "own class", "own\n", "a" * 65, "类"])
def test_bad_name_is_refused(name: str) -> None:
    """A name that could not be a metric label and a header value is refused."""
    with pytest.raises(ConfigError, match="not a name for a class"):
        RequestClass(name, EXACT, 60)


@pytest.mark.parametrize("key", ["stale_while_revalidate_seconds", "stale_if_error_seconds"])
def test_stale_time_without_ttl_is_refused(key: str) -> None:
    """A class that never stores has nothing to serve stale: asking for it is a mistake."""
    values: dict[str, Any] = {"name": "own", "layers": EXACT, "ttl_seconds": 0, key: 1}
    with pytest.raises(ConfigError, match=rf"classes\.own\.{key} is 1; allowed: 0 where"):
        RequestClass(**values)


def test_bounds_themselves_are_allowed() -> None:
    """The ends of each range belong to it."""
    widest = RequestClass(
        "a" * 64,
        tuple(LayerName),
        MAX_SECONDS,
        stale_while_revalidate_seconds=MAX_SECONDS,
        stale_if_error_seconds=MAX_SECONDS,
        sources=tuple(f"{n:x}" * 128 for n in range(16)),
        max_answer_bytes=64 << 20,
        level="strict",
    )
    assert widest.stale_seconds == MAX_SECONDS
    assert RequestClass("a", EXACT, 0, max_answer_bytes=1).is_cached is False


def test_built_in_lifetimes_and_sources() -> None:
    """The built-in classes live as long, and depend on what, the documentation says."""
    actual = {name: (c.ttl_seconds, c.sources) for name, c in BUILT_IN_CLASSES.items()}
    assert actual == {
        "translation": (86_400, ()),
        "formatting": (86_400, ()),
        "faq": (3_600, ("last_updated",)),
        "code": (1_800, ("commit",)),
        "realtime": (300, ("data_freshness",)),
        "factual": (0, ()),
        "general": (3_600, ()),
    }


def test_built_in_classes_are_under_their_names() -> None:
    """Every class stands under its own name."""
    assert [c.name for c in BUILT_IN_CLASSES.values()] == list(BUILT_IN_CLASSES)


def test_only_questions_may_be_answered_by_a_similar_one() -> None:
    """Where the text itself is worked on, a similar text has another answer: exact layer only."""
    semantic = {n for n, c in BUILT_IN_CLASSES.items() if LayerName.SEMANTIC in c.layers}
    assert semantic == {"faq", "general"}
