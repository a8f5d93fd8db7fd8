"""What only works with an extra installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from stepwell.core.errors import ConfigError


@contextmanager
def extra_for(reason: str, extra: str) -> Iterator[None]:
    """Import inside what an extra brings.

    Args:
        reason: Why it is needed: a setting and its value.
        extra: Its name.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(
            f"{reason}, and {error.name} is not installed:"
            f" in a clone of Stepwell, pip install '.[{extra}]'."
        ) from error
