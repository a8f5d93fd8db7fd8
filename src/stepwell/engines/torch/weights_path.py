"""What can be told of a model's files without loading them. Needs no torch."""

from pathlib import Path

from stepwell.core.errors import ConfigError

_GGUF = b"GGUF"
"""How such a file begins."""

_OF_A_FOLDER = ("config.json", "tokenizer.json", "*.safetensors")


def check_weights(setting: str, path: Path) -> None:
    """Refuse a path at which there is no model. Reads four bytes at most.

    Args:
        setting: The key that names it.
        path: A GGUF file, or a folder as Hugging Face has them.

    Raises:
        ConfigError: Names the key, the path, what is wrong there and what would be right.
    """
    try:
        wrong = _wrong_with(path)
    except OSError as error:
        wrong = f"which cannot be read ({error.strerror})"
    if wrong:
        raise ConfigError(
            f"{setting} is {str(path)!r}, {wrong}. Allowed: a GGUF file, or a folder with"
            f" {', '.join(_OF_A_FOLDER[:-1])} and weights in {_OF_A_FOLDER[-1]}."
        )


def _wrong_with(path: Path) -> str:
    if path.is_dir():
        missing = [name for name in _OF_A_FOLDER if not any(path.glob(name))]
        return f"a folder without {' and '.join(missing)}" if missing else ""
    with path.open("rb") as file:
        return "" if file.read(len(_GGUF)) == _GGUF else "which is not a GGUF file"
