"""What the settings say of the models that embed, and how fast each account may be asked."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from stepwell.core.embedding import Precision
from stepwell.embedding.cache.pace import Limits, Pace

MAX_PACES = 1_024
"""Accounts whose pace is remembered, the one used longest ago forgotten first."""


@dataclass(frozen=True, slots=True)
class ModelRule:
    """What is known of some models."""

    model: str = "*"
    """Pattern of the name, as in `fnmatch`; case counts."""
    upstream: str | None = None
    """Of this one only; ``None``: of any."""
    revision: str = ""
    normalization: Literal["as given", "unit"] = "as given"
    prefix: str = ""
    limits: Limits = field(default_factory=Limits)

    def means(self, upstream: str, model: str) -> bool:
        """Return whether the rule is for a model of an upstream."""
        return self.upstream in {None, upstream} and fnmatchcase(model, self.model)


@dataclass(frozen=True, slots=True)
class EmbeddingRules:
    """What holds for all requests."""

    precision: Precision = "f32"
    is_shared: bool = False
    """Whether tenants share vectors."""
    max_inputs: int = 10_000
    """Of a request."""
    models: Sequence[ModelRule] = ()
    otherwise: ModelRule = field(default_factory=ModelRule)
    """For models that none of them means."""

    def of(self, upstream: str, model: str) -> ModelRule:
        """Return the first rule for a model."""
        return next((rule for rule in self.models if rule.means(upstream, model)), self.otherwise)


class Paces:
    """A pace for each account at a model server. For one event loop."""

    def __init__(self) -> None:
        """Know of no account."""
        self._paces: OrderedDict[tuple[str, str, str], Pace] = OrderedDict()

    def of(self, upstream: str, rule: ModelRule, account: str) -> Pace:
        """Return the pace of ``account`` for the models of ``rule``."""
        key = (upstream, rule.model, account)
        pace = self._paces.get(key)
        if pace is None:
            pace = self._paces[key] = Pace(rule.limits)
            if len(self._paces) > MAX_PACES:
                self._paces.popitem(last=False)
        else:
            self._paces.move_to_end(key)
        return pace
