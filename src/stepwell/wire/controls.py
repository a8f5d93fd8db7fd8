"""What a caller may say about caching, in headers or in the body."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepwell.core.entry import SourceValue
from stepwell.core.names import Level
from stepwell.wire.cache_control import delta_seconds, read_directives
from stepwell.wire.markers import (
    Said,
    bad_control,
    read_class,
    read_level,
    read_name,
    read_similarity,
    read_sources,
    read_tags,
)


@dataclass(frozen=True, slots=True)
class Directives:
    """Cache directives of one request, from ``Cache-Control`` and the body's ``cache`` object.

    Both may be given; the stricter of two values counts. Callers can only tighten what the
    request class allows.
    """

    no_cache: bool = False
    """Do not answer from the cache; the new answer may be stored (RFC 9111, 5.2.1.4)."""
    no_store: bool = False
    """Do not store the answer; one already stored may be served (RFC 9111, 5.2.1.5)."""
    only_if_cached: bool = False
    """Answer from the cache or with 504 (RFC 9111, 5.2.1.7)."""
    max_age_seconds: float = math.inf
    """Serve only answers at most this old (``max-age``, ``s-maxage``)."""
    min_fresh_seconds: float = 0.0
    """Serve only answers that stay fresh at least this long."""
    max_stale_seconds: float = 0.0
    """Serve answers expired at most this long, as far as the class allows; ``inf`` if bare."""
    ttl_seconds: float = math.inf
    """Store the answer at most this long (``ttl`` in the body)."""
    level: Level | None = None
    """Serve answers to other words only at this level or a stricter one."""
    min_similarity: float = 0.0
    """Serve answers to other words only if they are at least this similar, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Everything a request says to Stepwell rather than to the model server."""

    directives: Directives = Directives()
    sub_namespace: str = ""
    """Narrows the tenant's namespace (``cache.namespace``); never leaves it."""
    request_class: str | None = None
    sources: tuple[SourceValue, ...] = ()
    """Named sources the answer depends on, with their current values."""
    tags: tuple[str, ...] = ()


_NO_DIRECTIVES = Directives()
_NOTHING = Controls()

_CLASS = ("X-Stepwell-Class", "stepwell_class")
_TAGS = ("X-Stepwell-Tags", "stepwell_tags")
_SOURCES = ("X-Stepwell-Sources", "stepwell_sources")
_LEVEL = ("X-Stepwell-Level", "stepwell_level")
_SIMILARITY = ("X-Stepwell-Min-Similarity", "stepwell_min_similarity")
_OURS = (_CLASS, _TAGS, _SOURCES, _LEVEL, _SIMILARITY)
_IN_METADATA = frozenset(field for _, field in _OURS)
_OUR_HEADERS = frozenset({"cache-control", *(header.lower() for header, _ in _OURS)})
_IN_CACHE = ("no-cache", "no-store", "ttl", "s-maxage", "namespace")
_MAX_AGE_SPELLINGS = ("s-maxage", "s-max-age")


def take_controls(
    headers: Mapping[str, str], body: dict[str, Any]
) -> tuple[dict[str, Any], Controls]:
    """Take out of a request what it says to us.

    Read are the headers ``Cache-Control``, ``X-Stepwell-Class``, ``X-Stepwell-Tags`` (``a, b``),
    ``X-Stepwell-Sources`` (``name=value, ...``), ``X-Stepwell-Level`` and
    ``X-Stepwell-Min-Similarity``; the body's ``cache`` object (``no-cache``,
    ``no-store``, ``ttl``, ``s-maxage``, ``namespace``, as LiteLLM has it; ``null`` is as if not
    given); and in its ``metadata`` the strings ``stepwell_class``, ``stepwell_tags`` and so on,
    written like the headers. Of directives given twice the stricter counts;
    tags and sources add up. A ``cache`` that is no object is not ours and stays. Costs a few us.

    Args:
        headers: By lower-case name; repeated fields joined by commas.
        body: The parsed body. It is not changed.

    Returns:
        The body without what was for us (the same object if nothing was), and the controls.

    Raises:
        RequestError: 400 ``invalid_control``; ``param`` names the header or field. Seconds that
            cannot be read are refused too, where RFC 9111 (4.2.1) would let us take the answer
            for stale: a caller who errs should know.
    """
    if not _may_say_something(headers, body):
        return body, _NOTHING
    cache = body.get("cache")
    cache = _known(cache) if isinstance(cache, dict) else None
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    controls = Controls(
        directives=_likeness(
            _directives(headers.get("cache-control"), cache),
            read_level(_said(_LEVEL, headers, metadata)),
            read_similarity(_said(_SIMILARITY, headers, metadata)),
        ),
        sub_namespace=_sub_namespace(cache),
        request_class=read_class(_said(_CLASS, headers, metadata)),
        sources=read_sources(_said(_SOURCES, headers, metadata)),
        tags=read_tags(_said(_TAGS, headers, metadata)),
    )
    if cache is not None:
        body = {name: value for name, value in body.items() if name != "cache"}
    if not _IN_METADATA.isdisjoint(metadata):
        kept = {name: value for name, value in metadata.items() if name not in _IN_METADATA}
        body = {name: kept if name == "metadata" else value for name, value in body.items()}
        if not kept:
            del body["metadata"]
    return body, controls


def _likeness(directives: Directives, level: Level | None, min_similarity: float) -> Directives:
    if level is None and not min_similarity:
        return directives
    return replace(directives, level=level, min_similarity=min_similarity)


def _may_say_something(headers: Mapping[str, str], body: Mapping[str, Any]) -> bool:
    return "cache" in body or "metadata" in body or not _OUR_HEADERS.isdisjoint(headers)


def _known(cache: dict[str, Any]) -> dict[str, Any]:
    for name in cache:
        if name not in _IN_CACHE and name not in _MAX_AGE_SPELLINGS:
            raise bad_control(f"cache.{name[:40]}", f"is not known: use {', '.join(_IN_CACHE)}")
    return cache


def _said(names: tuple[str, str], headers: Mapping[str, str], metadata: Mapping[str, Any]) -> Said:
    header, field = names
    said = []
    if (text := headers.get(header.lower())) is not None:
        said.append((header, text))
    if field in metadata:
        place = f"metadata.{field}"
        if not isinstance(metadata[field], str):
            raise bad_control(place, "must be a string")
        said.append((place, metadata[field]))
    return said


def _directives(field: str | None, cache: Mapping[str, Any] | None) -> Directives:
    if field is None and cache is None:
        return _NO_DIRECTIVES
    header = _from_header(field) if field is not None else _NO_DIRECTIVES
    if cache is None:
        return header
    ages = [_seconds_in_body(cache, name) for name in _MAX_AGE_SPELLINGS]
    return Directives(
        no_cache=_flag_in_body(cache, "no-cache") or header.no_cache,
        no_store=_flag_in_body(cache, "no-store") or header.no_store,
        only_if_cached=header.only_if_cached,
        max_age_seconds=min(*ages, header.max_age_seconds),
        min_fresh_seconds=header.min_fresh_seconds,
        max_stale_seconds=header.max_stale_seconds,
        ttl_seconds=_seconds_in_body(cache, "ttl"),
    )


def _from_header(field: str) -> Directives:
    flags = set()
    seconds: dict[str, list[float]] = {"max-age": [], "min-fresh": [], "max-stale": []}
    for name, value in read_directives(field):
        if name == "max-stale" and value is None:
            seconds[name].append(math.inf)
        elif name in seconds:
            seconds[name].append(_seconds_in_header(name, value))
        else:
            flags.add(name)
    return Directives(
        no_cache="no-cache" in flags,
        no_store="no-store" in flags,
        only_if_cached="only-if-cached" in flags,
        max_age_seconds=min(seconds["max-age"], default=math.inf),
        min_fresh_seconds=max(seconds["min-fresh"], default=0.0),
        max_stale_seconds=min(seconds["max-stale"], default=0.0),
    )


def _seconds_in_header(name: str, value: str | None) -> float:
    seconds = delta_seconds(value)
    if seconds is None:
        raise bad_control("Cache-Control", f"must give '{name}' a whole number of seconds")
    return float(seconds)


def _sub_namespace(cache: Mapping[str, Any] | None) -> str:
    value = cache.get("namespace") if cache is not None else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_control("cache.namespace", "must be a string")
    return read_name("cache.namespace", value)


def _flag_in_body(cache: Mapping[str, Any], name: str) -> bool:
    value = cache.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad_control(f"cache.{name}", "must be true or false")
    return value is True


def _seconds_in_body(cache: Mapping[str, Any], name: str) -> float:
    value = cache.get(name)
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise bad_control(f"cache.{name}", "must be a number of seconds, 0 or more")
    return float(value)
