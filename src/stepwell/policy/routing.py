"""Which class a request belongs to: the caller decides, then the operator, then the classifier."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.names import Endpoint, LayerName
from stepwell.policy.classes import RequestClass, stricter
from stepwell.policy.classifier import Suggestion
from stepwell.policy.text import Body, last_user_text, system_text
from stepwell.wire.controls import Controls

Classify = Callable[[Endpoint, Body], Suggestion]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHOLE_TEXT = 1 << 62
_NAMED = "named by the request"


@dataclass(frozen=True, slots=True)
class Route:
    """An operator's rule: requests like this belong to that class. Made by `make_route`.

    Every condition given must hold; a route without conditions holds for every request.
    """

    request_class: str
    model: str | None = None
    """A glob over the model's name, as the caller gives it: ``gpt-4*``. Case counts."""
    endpoint: Endpoint | None = None
    system_sha256: str | None = None
    """SHA-256, in hexadecimal, of the whole system text in UTF-8: of the one system message,
    where there is just one (``printf %s "$PROMPT" | sha256sum``)."""
    pattern: re.Pattern[str] | None = None
    """Searched for in the first 4,096 characters of the user's last words."""

    def matches(self, endpoint: Endpoint, body: Body) -> bool:
        """Return whether the route means this request. Cheapest conditions first.

        Costs a hash of the system text where ``system_sha256`` is given, and whatever the
        operator's own pattern costs.
        """
        if self.endpoint is not None and self.endpoint is not endpoint:
            return False
        if self.model is not None:
            model = body.get("model")
            if not (isinstance(model, str) and fnmatchcase(model, self.model)):
                return False
        if self.system_sha256 is not None and self.system_sha256 != system_hash(endpoint, body):
            return False
        return self.pattern is None or bool(self.pattern.search(last_user_text(endpoint, body)))


def make_route(
    position: int,
    *,
    request_class: str,
    known_classes: Collection[str],
    model: str | None = None,
    endpoint: str | None = None,
    system_sha256: str | None = None,
    pattern: str | None = None,
) -> Route:
    """Check and compile one route of the settings.

    Args:
        position: Its place in the settings, from 0; for the messages.
        request_class: Name of the class.
        known_classes: Names of all classes.
        model: See `Route`.
        endpoint: See `Route`; an `Endpoint`'s value.
        system_sha256: See `Route`.
        pattern: A Python regular expression.

    Raises:
        ConfigError: A value cannot be used; the message names ``routes[POSITION].key``.
    """

    def refuse(key: str, value: str, allowed: str) -> ConfigError:
        return ConfigError(f"routes[{position}].{key} is {value!r}; allowed: {allowed}")

    if request_class not in known_classes:
        raise refuse("class", request_class, ", ".join(sorted(known_classes)))
    if model == "":
        raise refuse("model", model, "a pattern with * and ?, such as gpt-4*")
    if endpoint is not None and endpoint not in set(Endpoint):
        raise refuse("endpoint", endpoint, ", ".join(Endpoint))
    if system_sha256 is not None and not _SHA256.fullmatch(system_sha256):
        raise refuse("system_sha256", system_sha256, "64 lower-case hexadecimal digits")
    try:
        compiled = None if pattern is None else re.compile(pattern)
    except re.error as error:
        problem = f"a regular expression ({error.msg} at position {error.pos})"
        raise refuse("pattern", str(pattern), problem) from error
    only_for = None if endpoint is None else Endpoint(endpoint)
    return Route(request_class, model, only_for, system_sha256, compiled)


@dataclass(frozen=True, slots=True)
class ChosenClass:
    """The class a request is handled under, and who chose it."""

    request_class: RequestClass
    by: Literal["request", "route", "classifier", "default"]
    why: str
    """For the trail; holds nothing of the request's text."""


def choose_class(
    controls: Controls,
    routes: Sequence[Route],
    classes: Mapping[str, RequestClass],
    endpoint: Endpoint,
    body: Body,
    classify: Classify | None,
) -> ChosenClass:
    """Choose the class of a request: its own word, the first route, the classifier, ``general``.

    A class that the request names keeps the level and the shadow mode of the class it would have
    had without, where these are stricter: a caller can only tighten them.

    Args:
        controls: What the request says.
        routes: The operator's rules, in order.
        classes: All classes by name; must hold ``general``.
        endpoint: Where the request goes.
        body: The request's JSON body.
        classify: `stepwell.policy.classifier.classify`, or ``None`` where it is switched off.

    Raises:
        RequestError: The request names a class that does not exist.
    """
    if controls.request_class is not None:
        named = classes.get(controls.request_class)
        if named is None:
            raise _unknown_class(controls.request_class, classes)
        if LayerName.SEMANTIC not in named.layers:  # It has no use for a level.
            return ChosenClass(named, "request", _NAMED)
        return _named_class(named, _unnamed_class(routes, classes, endpoint, body, classify))
    return _unnamed_class(routes, classes, endpoint, body, classify)


def _named_class(named: RequestClass, own: ChosenClass) -> ChosenClass:
    """Return the class that a request names, no looser than its ``own``."""
    kept = own.request_class
    level, shadow = stricter(named.level, kept.level), named.shadow or kept.shadow
    if (level, shadow) == (named.level, named.shadow):
        return ChosenClass(named, "request", _NAMED)
    tightened = [f"level {level}"] if level != named.level else []
    if shadow != named.shadow:
        tightened.append("shadow mode")
    why = f"{_NAMED}; {' and '.join(tightened)} of {kept.name}, by {own.by}: {own.why}"
    return ChosenClass(replace(named, level=level, shadow=shadow), "request", why)


def _unnamed_class(
    routes: Sequence[Route],
    classes: Mapping[str, RequestClass],
    endpoint: Endpoint,
    body: Body,
    classify: Classify | None,
) -> ChosenClass:
    for position, route in enumerate(routes):
        if route.matches(endpoint, body):
            return ChosenClass(classes[route.request_class], "route", f"routes[{position}]")
    if classify is None:
        return ChosenClass(classes["general"], "default", "the classifier is off")
    suggestion = classify(endpoint, body)
    suggested = classes.get(suggestion.request_class)
    if suggested is None or suggestion.request_class == "general":
        return ChosenClass(classes["general"], "default", suggestion.why)
    return ChosenClass(suggested, "classifier", suggestion.why)


def _unknown_class(name: str, classes: Mapping[str, RequestClass]) -> RequestError:
    return RequestError(
        f"there is no request class {name[:64]!r}; there are: {', '.join(sorted(classes))}",
        code="unknown_request_class",
        param="X-Stepwell-Class",
    )


def system_hash(endpoint: Endpoint, body: Body) -> str:
    """Return the SHA-256 of the whole system text, in hexadecimal, as a route has it."""
    system = system_text(endpoint, body, _WHOLE_TEXT)
    return hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()
