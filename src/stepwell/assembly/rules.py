"""From the tables of the settings to the rules they state."""

from collections.abc import Mapping
from dataclasses import replace

from stepwell.assembly.settings import Class, Settings
from stepwell.keys.canonical import Dialect, KeyRules
from stepwell.policy.classes import BUILT_IN_CLASSES, GENERAL, RequestClass
from stepwell.policy.routing import Route, make_route
from stepwell.telemetry.prices import ModelPrice, Prices


def key_rules(settings: Settings, dialect: Dialect) -> KeyRules:
    """Return how bodies for an upstream of ``dialect`` are made canonical."""
    return KeyRules(
        dialect=dialect,
        text_steps=settings.exact.normalize,
        ignored_fields=frozenset(settings.exact.ignored_fields),
    )


def request_classes(settings: Settings) -> Mapping[str, RequestClass]:
    """Return the built-in classes with what the settings change, and the settings' own.

    Raises:
        ConfigError: Names the class and the key.
    """
    classes = dict(BUILT_IN_CLASSES)
    for name, table in settings.classes.items():
        base = classes.get(name, replace(GENERAL, name=name))
        given = {
            key: value
            for key in Class.__struct_fields__
            if (value := getattr(table, key)) is not None
        }
        classes[name] = replace(base, **given)
    return classes


def routes(settings: Settings, classes: Mapping[str, RequestClass]) -> tuple[Route, ...]:
    """Return the settings' routes, compiled.

    Raises:
        ConfigError: Names the route and the key.
    """
    return tuple(
        make_route(
            position,
            request_class=rule.request_class,
            known_classes=classes,
            model=rule.model,
            endpoint=rule.endpoint,
            system_sha256=rule.system_sha256,
            pattern=rule.pattern,
        )
        for position, rule in enumerate(settings.routes)
    )


def prices_of(settings: Settings) -> Prices:
    """Return the price table of the settings.

    Raises:
        ConfigError: A price cannot be used.
    """
    table = settings.prices
    return Prices(
        table.currency,
        {
            name: ModelPrice(
                price.input_per_million, price.output_per_million, price.cached_input_per_million
            )
            for name, price in table.models.items()
        },
    )
