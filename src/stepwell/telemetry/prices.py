"""What tokens cost."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import translate

from stepwell.core.entry import Usage
from stepwell.core.errors import ConfigError

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Price of a model's tokens, in the table's currency per million."""

    input_per_million: float
    output_per_million: float
    cached_input_per_million: float | None = None
    """Of prompt tokens that the model server had in its prefix cache; ``None``: like any other."""

    def of(self, usage: Usage) -> float:
        """Return what ``usage`` costs."""
        cached = usage.cached_tokens or 0
        per_cached = self.cached_input_per_million
        if per_cached is None:
            per_cached = self.input_per_million
        return (
            (usage.prompt_tokens - cached) * self.input_per_million
            + cached * per_cached
            + usage.completion_tokens * self.output_per_million
        ) / _MILLION


class Prices:
    """A price table. Prices are the operator's: none are built in, as they would go stale."""

    __slots__ = ("_exact", "_patterns", "currency")

    def __init__(self, currency: str, per_model: Mapping[str, ModelPrice]) -> None:
        """Make a table.

        Args:
            currency: Its ISO 4217 code, such as ``USD``.
            per_model: Price by model name, or by pattern with ``*``, ``?`` and ``[...]``.
                A plain name beats patterns; among patterns the first that matches counts.

        Raises:
            ConfigError: A price is negative or not finite.
        """
        for name, price in per_model.items():
            _check(f"prices.{name}.input_per_million", price.input_per_million)
            _check(f"prices.{name}.output_per_million", price.output_per_million)
            cached = price.cached_input_per_million
            _check(f"prices.{name}.cached_input_per_million", 0 if cached is None else cached)
        self.currency = currency
        self._exact = dict(per_model)
        self._patterns = [
            (re.compile(translate(name)), price)
            for name, price in per_model.items()
            if any(sign in name for sign in "*?[")
        ]

    def of(self, model: str) -> ModelPrice | None:
        """Return the price of ``model``, or ``None`` if the table does not name it."""
        exact = self._exact.get(model)
        if exact is not None:
            return exact
        return next((price for pattern, price in self._patterns if pattern.match(model)), None)


def _check(setting: str, value: float) -> None:
    if not 0 <= value < float("inf"):
        raise ConfigError(f"{setting} is {value!r}; it must be a number from 0 up")
