"""What requests say to us, in headers and bodies."""

import math
from typing import Any

import pytest

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError
from stepwell.wire.controls import Controls, Directives, take_controls

BODY: dict[str, Any] = {"model": "m", "messages": []}


def directives(field: str | None = None, cache: object = None) -> Directives:
    """Return the directives of a ``Cache-Control`` field and a ``cache`` object."""
    headers = {} if field is None else {"cache-control": field}
    body = BODY if cache is None else BODY | {"cache": cache}
    return take_controls(headers, body)[1].directives


def refusal(headers: dict[str, str], body: dict[str, Any]) -> RequestError:
    """Return the error for controls that must be refused."""
    with pytest.raises(RequestError) as caught:
        take_controls(headers, body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_control")
    return caught.value


def test_nothing_said() -> None:
    """A request that says nothing to us keeps its body."""
    body, controls = take_controls({"content-type": "application/json"}, BODY)
    assert body is BODY
    assert controls == Controls()


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", Directives()),
        ("no-cache", Directives(no_cache=True)),
        ("No-Cache", Directives(no_cache=True)),
        ("no-store", Directives(no_store=True)),
        ("only-if-cached", Directives(only_if_cached=True)),
        ("max-age=60", Directives(max_age_seconds=60.0)),
        ("max-age=0", Directives(max_age_seconds=0.0)),
        ("max-age=007", Directives(max_age_seconds=7.0)),
        ('max-age="60"', Directives(max_age_seconds=60.0)),
        ("min-fresh=5", Directives(min_fresh_seconds=5.0)),
        ("max-stale", Directives(max_stale_seconds=math.inf)),
        ("max-stale=30", Directives(max_stale_seconds=30.0)),
        ("max-age=60, max-age=5", Directives(max_age_seconds=5.0)),
        ("max-stale, max-stale=5", Directives(max_stale_seconds=5.0)),
        ("min-fresh=1,min-fresh=5", Directives(min_fresh_seconds=5.0)),
        ("max-age=" + "9" * 5_000, Directives(max_age_seconds=2.0**31)),
        ("no-transform, private, s-maxage=1, x=y", Directives()),
        ('ext="no-cache, max-age=1", no-store', Directives(no_store=True)),
        (r'ext="\", no-cache", no-store', Directives(no_store=True)),
        (" , ,no-cache , max-age=1,", Directives(no_cache=True, max_age_seconds=1.0)),
    ],
)
def test_cache_control(field: str, expected: Directives) -> None:
    """The request directives of RFC 9111 are read, all others ignored."""
    assert directives(field) == expected


@pytest.mark.parametrize(
    "field",
    ["max-age", "max-age=", "max-age=x", "max-age=-1", "max-age=1.5", "max-stale=", "min-fresh=１"],
)
def test_seconds_that_cannot_be_read(field: str) -> None:
    """A number of seconds that is none is refused, never guessed."""
    assert refusal({"cache-control": field}, BODY).param == "Cache-Control"


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ({}, Directives()),
        ({"no-cache": True}, Directives(no_cache=True)),
        ({"no-store": True, "no-cache": False}, Directives(no_store=True)),
        ({"ttl": 600}, Directives(ttl_seconds=600.0)),
        ({"ttl": 0}, Directives(ttl_seconds=0.0)),
        ({"s-maxage": 1.5}, Directives(max_age_seconds=1.5)),
        ({"s-max-age": 5, "s-maxage": 9}, Directives(max_age_seconds=5.0)),
        ({"ttl": None, "no-cache": None, "namespace": None}, Directives()),
    ],
)
def test_cache_object(cache: dict[str, Any], expected: Directives) -> None:
    """LiteLLM's `cache` object is read."""
    assert directives(cache=cache) == expected


@pytest.mark.parametrize(
    ("cache", "param"),
    [
        ({"no-cache": 1}, "cache.no-cache"),
        ({"no-store": "true"}, "cache.no-store"),
        ({"ttl": "600"}, "cache.ttl"),
        ({"ttl": True}, "cache.ttl"),
        ({"ttl": -1}, "cache.ttl"),
        ({"s-maxage": [1]}, "cache.s-maxage"),
        ({"namespace": 5}, "cache.namespace"),
        ({"namespace": ""}, "cache.namespace"),
        ({"namespace": "a\nb"}, "cache.namespace"),
        ({"namespace": "x" * 129}, "cache.namespace"),
        ({"use-cache": True}, "cache.use-cache"),
        ({"max-age": 5}, "cache.max-age"),
    ],
)
def test_wrong_cache_object(cache: dict[str, Any], param: str) -> None:
    """What we do not know, or of the wrong type, is refused by name."""
    assert refusal({}, BODY | {"cache": cache}).param == param


def test_unknown_key_says_what_is_known() -> None:
    """The message lists what may be said."""
    error = refusal({}, BODY | {"cache": {"maxage": 5}})
    assert "no-cache, no-store, ttl, s-maxage, namespace" in str(error)


def test_cache_object_is_taken_out() -> None:
    """The `cache` object does not go on to the model server; the body given is not changed."""
    given = BODY | {"cache": {"namespace": "team-a"}}
    body, controls = take_controls({}, given)
    assert body == BODY
    assert given == BODY | {"cache": {"namespace": "team-a"}}
    assert controls.sub_namespace == "team-a"


@pytest.mark.parametrize("cache", [True, "no-cache", [], None, 5])
def test_cache_that_is_not_ours(cache: object) -> None:
    """A `cache` that is no object is some field of the model server's."""
    given = BODY | {"cache": cache}
    assert take_controls({}, given) == (given, Controls())


def test_the_stricter_counts() -> None:
    """Header and body can each tighten what the other says, never loosen it."""
    loose = {"no-cache": False, "no-store": False, "s-maxage": 100, "ttl": 7}
    assert directives("no-cache, no-store, max-age=60", loose) == Directives(
        no_cache=True, no_store=True, max_age_seconds=60.0, ttl_seconds=7.0
    )
    strict = {"no-cache": True, "no-store": True, "s-maxage": 5}
    assert directives("max-age=60, min-fresh=3, max-stale", strict) == Directives(
        no_cache=True,
        no_store=True,
        max_age_seconds=5.0,
        min_fresh_seconds=3.0,
        max_stale_seconds=math.inf,
    )


def test_headers() -> None:
    """Class, tags and sources may be said in headers."""
    headers = {
        "x-stepwell-class": " faq ",
        "x-stepwell-tags": "a, b,, a ,文档",
        "x-stepwell-sources": "faq:returns=2026-11-02, repo:x=a=b",
    }
    assert take_controls(headers, BODY)[1] == Controls(
        request_class="faq",
        tags=("a", "b", "文档"),
        sources=(SourceValue("faq:returns", "2026-11-02"), SourceValue("repo:x", "a=b")),
    )


def test_metadata() -> None:
    """The same may be said in the metadata, and is taken out of it."""
    given = BODY | {
        "metadata": {
            "stepwell_class": "faq",
            "stepwell_tags": "a, b",
            "stepwell_sources": "x=1",
            "mine": "stays",
        }
    }
    body, controls = take_controls({}, given)
    assert body == BODY | {"metadata": {"mine": "stays"}}
    assert set(given["metadata"]) == {"stepwell_class", "stepwell_tags", "stepwell_sources", "mine"}
    assert controls == Controls(
        request_class="faq", tags=("a", "b"), sources=(SourceValue("x", "1"),)
    )


def test_metadata_that_is_empty_then() -> None:
    """Metadata that was only for us goes altogether; metadata that was empty before stays."""
    assert take_controls({}, BODY | {"metadata": {"stepwell_tags": "a"}})[0] == BODY
    assert take_controls({}, BODY | {"metadata": {}})[0] == BODY | {"metadata": {}}
    assert take_controls({}, BODY | {"metadata": "x"})[0] == BODY | {"metadata": "x"}


def test_headers_and_metadata_add_up() -> None:
    """Tags and sources of both places count, each once."""
    headers = {"x-stepwell-tags": "a, b", "x-stepwell-sources": "x=1", "x-stepwell-class": "faq"}
    metadata = {"stepwell_tags": "b, c", "stepwell_sources": "x=1, y=2", "stepwell_class": "faq"}
    controls = take_controls(headers, BODY | {"metadata": metadata})[1]
    assert controls.tags == ("a", "b", "c")
    assert controls.sources == (SourceValue("x", "1"), SourceValue("y", "2"))
    assert controls.request_class == "faq"


def test_contradictions() -> None:
    """Two classes, or two values for a source, are refused: neither can be told to be right."""
    metadata = {"metadata": {"stepwell_class": "code"}}
    error = refusal({"x-stepwell-class": "faq"}, BODY | metadata)
    assert error.param == "metadata.stepwell_class"
    assert refusal({"x-stepwell-sources": "x=1, x=2"}, BODY).param == "X-Stepwell-Sources"


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"x-stepwell-class": ""}, "X-Stepwell-Class"),
        ({"x-stepwell-class": "x" * 129}, "X-Stepwell-Class"),
        ({"x-stepwell-tags": "a, b\x00c"}, "X-Stepwell-Tags"),
        ({"x-stepwell-tags": "a\x85"}, "X-Stepwell-Tags"),
        ({"x-stepwell-tags": ",".join(f"t{n}" for n in range(17))}, "X-Stepwell-Tags"),
        ({"x-stepwell-sources": "faq"}, "X-Stepwell-Sources"),
        ({"x-stepwell-sources": "faq="}, "X-Stepwell-Sources"),
        ({"x-stepwell-sources": "=v1"}, "X-Stepwell-Sources"),
        ({"x-stepwell-sources": "faq=" + "v" * 257}, "X-Stepwell-Sources"),
        ({"x-stepwell-sources": ",".join(f"s{n}=1" for n in range(17))}, "X-Stepwell-Sources"),
    ],
)
def test_bounds(headers: dict[str, str], param: str) -> None:
    """Names and values are bounded in number and length, and free of control characters."""
    assert refusal(headers, BODY).param == param


def test_just_within_bounds() -> None:
    """Sixteen names of 128 characters and values of 256 are allowed, in both places together."""
    names = [f"{n:0128}" for n in range(16)]
    headers = {"x-stepwell-tags": ",".join(names[:8])}
    metadata = {
        "stepwell_tags": ",".join(names[4:]),
        "stepwell_sources": ",".join(f"{name}={'v' * 256}" for name in names),
    }
    controls = take_controls(headers, BODY | {"metadata": metadata})[1]
    assert controls.tags == tuple(names)
    assert len(controls.sources) == 16


@pytest.mark.parametrize("name", ["stepwell_class", "stepwell_tags", "stepwell_sources"])
def test_metadata_of_the_wrong_type(name: str) -> None:
    """What is said in the metadata must be a string, as all metadata."""
    assert refusal({}, BODY | {"metadata": {name: ["a"]}}).param == f"metadata.{name}"
