"""What commands print for programs."""

import sys

import orjson


def print_json(told: object) -> None:
    """Print ``told`` as indented JSON."""
    sys.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n")
