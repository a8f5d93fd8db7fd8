"""From ``[embedding]`` to whether vectors are kept, and what is known of the models."""

from importlib.util import find_spec

from stepwell.assembly.settings import Settings
from stepwell.core.errors import ConfigError


def wants_embedding(settings: Settings) -> bool:
    """Return whether vectors are kept.

    Raises:
        ConfigError: They are to be, and numpy is not installed.
    """
    match settings.embedding.enabled:
        case "off":
            return False
        case "auto":
            return find_spec("numpy") is not None
        case "on":
            if find_spec("numpy") is None:
                raise ConfigError(
                    "embedding.enabled is 'on', and numpy is not installed:"
                    " in a clone of Stepwell, pip install '.[embedding]'."
                )
            return True


def check_embedding(settings: Settings) -> None:
    """Refuse what cannot work.

    Raises:
        ConfigError: numpy is missing, or a model's upstream is none; names the key.
    """
    wants_embedding(settings)
    names = sorted(settings.upstreams)
    for position, table in enumerate(settings.embedding.models):
        if table.upstream is not None and table.upstream not in settings.upstreams:
            raise ConfigError(
                f"embedding.models.{position}.upstream is {table.upstream!r};"
                f" allowed: {', '.join(names)}."
            )
