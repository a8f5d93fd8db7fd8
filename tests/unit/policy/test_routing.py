"""Which class a request belongs to, and who says so."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.names import Endpoint
from stepwell.policy.classes import BUILT_IN_CLASSES, GENERAL
from stepwell.policy.classifier import Suggestion
from stepwell.policy.routing import Route, choose_class, make_route
from stepwell.wire.controls import Controls

SYSTEM = "Du bist ein Übersetzer."
BODY: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Good morning"},
    ],
}


def route(**conditions: Any) -> Route:
    """Return a route to ``faq``."""
    return make_route(0, request_class="faq", known_classes=BUILT_IN_CLASSES, **conditions)


def always_translation(_endpoint: Endpoint, _body: Mapping[str, Any]) -> Suggestion:
    """Suggest a translation."""
    return Suggestion("translation", "seen")


def choose(
    controls: Controls | None = None, *routes: Route, off: bool = False
) -> tuple[str, str, str]:
    """Choose a class for the body; return its name, who chose it, and why."""
    chosen = choose_class(
        controls or Controls(),
        routes,
        BUILT_IN_CLASSES,
        Endpoint.CHAT,
        BODY,
        None if off else always_translation,
    )
    return chosen.request_class.name, chosen.by, chosen.why


def test_the_request_decides_first() -> None:
    """What the request says counts more than routes and classifier."""
    named = Controls(request_class="realtime")
    assert choose(named, route()) == ("realtime", "request", "named by the request")


@pytest.mark.parametrize(
    ("own", "named", "level", "shadow", "kept"),
    [
        ({"level": "strict"}, {"level": "faq"}, "strict", False, "level strict"),
        ({"level": "general"}, {"level": "strict"}, "strict", False, ""),
        ({"shadow": True}, {}, "general", True, "shadow mode"),
        ({}, {"shadow": True}, "general", True, ""),
        (
            {"level": "strict", "shadow": True},
            {"level": "general"},
            "strict",
            True,
            "level strict and shadow mode",
        ),
    ],
)
@pytest.mark.parametrize("by", ["route", "classifier"])
def test_a_named_class_loosens_nothing(
    own: dict[str, Any],
    named: dict[str, Any],
    level: str,
    shadow: bool,  # noqa: FBT001
    kept: str,
    by: str,
) -> None:
    """The stricter level counts, and shadow mode holds if either class has it; it says so."""
    classes = {
        "general": GENERAL,
        "own": replace(GENERAL, name="own", **own),
        "named": replace(GENERAL, name="named", ttl_seconds=7, **named),
    }
    routes = [make_route(0, request_class="own", known_classes=classes)] if by == "route" else []
    chosen = choose_class(
        Controls(request_class="named"),
        routes,
        classes,
        Endpoint.CHAT,
        BODY,
        lambda *_: Suggestion("own", "seen"),
    )
    found = chosen.request_class
    assert (found.name, found.ttl_seconds, chosen.by) == ("named", 7, "request")
    assert (found.level, found.shadow) == (level, shadow)
    whom = "route: routes[0]" if by == "route" else "classifier: seen"
    why = f"named by the request; {kept} of own, by {whom}" if kept else "named by the request"
    assert chosen.why == why


def test_a_route_loosens() -> None:
    """It is the operator's word."""
    classes = {**BUILT_IN_CLASSES, "general": replace(GENERAL, level="strict", shadow=True)}
    chosen = choose_class(
        Controls(request_class="faq"), [route()], classes, Endpoint.CHAT, BODY, always_translation
    )
    assert chosen.request_class == BUILT_IN_CLASSES["faq"]


def test_the_first_route_that_matches_decides_next() -> None:
    """Without a word of the request, routes are asked in order."""
    other = make_route(1, request_class="code", known_classes=BUILT_IN_CLASSES)
    passed_over = route(model="llama*")
    assert choose(None, passed_over, other, route()) == ("code", "route", "routes[1]")


def test_the_classifier_is_asked_last() -> None:
    """Where no route matches, the classifier's suggestion is taken."""
    assert choose(None, route(model="llama*")) == ("translation", "classifier", "seen")


def test_general_without_a_classifier() -> None:
    """With the classifier off, what nobody claims is general."""
    assert choose(off=True) == ("general", "default", "the classifier is off")


@pytest.mark.parametrize("name", ["general", "unheard-of"])
def test_general_if_the_classifier_knows_nothing_better(name: str) -> None:
    """A suggestion of general, or of a class that does not exist, is no suggestion."""
    chosen = choose_class(
        Controls(), (), BUILT_IN_CLASSES, Endpoint.CHAT, BODY, lambda *_: Suggestion(name, "why")
    )
    assert (chosen.request_class.name, chosen.by, chosen.why) == ("general", "default", "why")


def test_unknown_class_is_refused() -> None:
    """A request that names a class nobody made is told which there are."""
    with pytest.raises(RequestError) as error:
        choose(Controls(request_class="faqs"))
    assert error.value.status == 400
    assert error.value.code == "unknown_request_class"
    assert "'faqs'" in str(error.value)
    assert ", ".join(sorted(BUILT_IN_CLASSES)) in str(error.value)


def test_unknown_class_is_not_echoed_at_length() -> None:
    """A long name comes back shortened."""
    with pytest.raises(RequestError) as error:
        choose(Controls(request_class="x" * 10_000))
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"model": "gpt-4o-mini"}, True),
        ({"model": "gpt-4*"}, True),
        ({"model": "gpt-4"}, False),
        ({"model": "GPT-4*"}, False),
        ({"endpoint": "chat/completions"}, True),
        ({"endpoint": "responses"}, False),
        ({"system_sha256": hashlib.sha256(SYSTEM.encode()).hexdigest()}, True),
        ({"system_sha256": hashlib.sha256(b"").hexdigest()}, False),
        ({"pattern": "morning$"}, True),
        ({"pattern": "^morning"}, False),
        # All conditions must hold.
        ({"model": "gpt-4*", "endpoint": "chat/completions", "pattern": "Good"}, True),
        ({"model": "gpt-4*", "endpoint": "chat/completions", "pattern": "bad"}, False),
        ({"model": "llama*", "endpoint": "chat/completions", "pattern": "Good"}, False),
    ],
)
def test_conditions(conditions: dict[str, str], *, expected: bool) -> None:
    """A route matches if everything it says holds."""
    assert route(**conditions).matches(Endpoint.CHAT, BODY) is expected


def test_system_prompt_is_hashed_to_its_end() -> None:
    """Two long system prompts that differ in the last character are told apart."""
    long = "x" * 100_000
    wanted = route(system_sha256=hashlib.sha256((long + "a").encode()).hexdigest())
    for end, expected in (("a", True), ("b", False)):
        body = {"instructions": long + end, "input": "Hi"}
        assert wanted.matches(Endpoint.RESPONSES, body) is expected


def test_pattern_sees_a_bounded_text() -> None:
    """An operator's pattern is not run over a megabyte."""
    body = {"messages": [{"role": "user", "content": "x" * 1_000_000 + "end"}]}
    assert not route(pattern="end").matches(Endpoint.CHAT, body)
    assert route(pattern=r"\Ax{4096}\Z").matches(Endpoint.CHAT, body)


@pytest.mark.parametrize("model", [None, 5, ["gpt-4"]])
def test_odd_model_matches_no_glob(model: object) -> None:
    """A model that is not a name is matched by no glob, and breaks nothing."""
    assert not route(model="*").matches(Endpoint.CHAT, {"model": model})


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            {"request_class": "faqs"},
            r"routes\[3\]\.class is 'faqs'; allowed: code, factual",
        ),
        ({"model": ""}, r"routes\[3\]\.model is ''; allowed: a pattern"),
        ({"endpoint": "chat"}, r"routes\[3\]\.endpoint is 'chat'; allowed: chat/completions, "),
        ({"system_sha256": "ABC"}, r"routes\[3\]\.system_sha256 is 'ABC'; allowed: 64 lower-case"),
        ({"system_sha256": "A" * 64}, r"routes\[3\]\.system_sha256 is 'A{64}'; allowed: 64 lower"),
        ({"pattern": "a(b"}, r"routes\[3\]\.pattern is 'a\(b'; .*unterminated.* at position 1"),
    ],
)
def test_bad_route_is_refused(conditions: dict[str, Any], message: str) -> None:
    """A route that could not work is refused when it is loaded, with place, value and range."""
    values = {"request_class": "faq", "known_classes": BUILT_IN_CLASSES} | conditions
    with pytest.raises(ConfigError, match=message):
        make_route(3, **values)
