"""Which model server answers for which model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stepwell.core.errors import RequestError
from stepwell.core.ports import Upstream
from stepwell.keys.cache_key import KeyScheme

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Target:
    """A model server, and how requests to it get their keys."""

    upstream: Upstream
    scheme: KeyScheme
    models: tuple[str, ...] = ("*",)
    """Patterns of model names (``gpt-4*``), as in `fnmatch`; case counts."""
    takes_callers_key: bool = True
    """Whether the caller's ``Authorization`` is sent on; else the upstream has a key of its own."""


class Targets:
    """The model servers in the order of the settings."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)

    def __iter__(self) -> Iterator[Target]:
        return iter(self._targets)

    def for_model(self, model: str) -> Target:
        """Return the first target that has a pattern for ``model``.

        Raises:
            RequestError: 404, as OpenAI answers for a model it does not have.
        """
        for target in self._targets:
            for pattern in target.models:
                if pattern == "*" or fnmatchcase(model, pattern):
                    return target
        message = f"No upstream serves the model {model!r}; see /v1/models."
        raise RequestError(message, status=_NOT_FOUND, code="model_not_found", param="model")
