"""The reference pages of settings and commands, made from the code that reads them."""

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from types import ModuleType

import msgspec
from msgspec.structs import FieldInfo, fields

from stepwell.assembly import (
    settings,
    settings_embedding,
    settings_prefix,
    settings_semantic,
    settings_upstreams,
)
from stepwell.assembly.explain import allowed
from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_base import Table

_SETTINGS_HEAD = """\
<!-- Generated from src/stepwell/assembly/settings.py; do not edit. -->

# Settings

One TOML file, named by `--config` or by the variable `STEPWELL_CONFIG`. Everything has a default,
so the file holds only what differs. An unknown key or a value that is not allowed is an error, and
nothing is started. `stepwell config check` says what is wrong, `stepwell config show` prints what
is in force.

Secrets never stand in the file: keys that end in `_env` name an environment variable.
"""

_COMMANDS_HEAD = """\
<!-- Generated from the modules of src/stepwell/cli; do not edit. -->

# Commands

`stepwell COMMAND --help` says the same. Exit status: 0 done, 1 not done, 2 wrong call or settings.
Messages go to stderr, results to stdout.
"""

_TITLE = re.compile(r"^(?:One )?``(\[.+?\])``: (.*)$", re.DOTALL)
_PATTERN = re.compile(r"(?<=matches )(.+)$")
_QUOTED = re.compile(r"'([^']*)'")
_WIDTH = 96
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def render_settings() -> str:
    """Return the page of all settings in Markdown: a section for each table of the file."""
    meanings = {
        name: meaning
        for module in (
            settings,
            settings_prefix,
            settings_semantic,
            settings_embedding,
            settings_upstreams,
        )
        for name, meaning in _meanings(module).items()
    }
    tables = _tables(Settings, "", meanings)
    return _SETTINGS_HEAD + "".join(_section(table, note, meanings) for table, note in tables)


def command_parser(package: ModuleType) -> argparse.ArgumentParser:
    """Return a parser of every command in ``package``: its modules that have an ``add_parser``."""
    parser = argparse.ArgumentParser(prog="stepwell")
    commands = parser.add_subparsers(required=True)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        add_parser = getattr(importlib.import_module(module.name), "add_parser", None)
        if add_parser is not None:
            add_parser(commands)
    return parser


def render_commands(parser: argparse.ArgumentParser) -> str:
    """Return the page of all commands below ``parser`` in Markdown, in their order."""
    return _COMMANDS_HEAD + "".join(_command(parser) for parser in _below(parser))


_Meanings = Mapping[tuple[str, str], str]
"""What a field means, by the names of its class and itself."""


def _tables(
    table: type[Table], note: str, meanings: _Meanings
) -> Iterator[tuple[type[Table], str]]:
    """Yield a table and all below it in the order of the fields, with what stands under those."""
    yield table, note
    for info in fields(table):
        if (below := _table_in(info.type)) is not None:
            note = meanings.get((table.__name__, info.name), "")
            yield from _tables(below, note, meanings)


def _table_in(kind: object) -> type[Table] | None:
    """Return the table that a field holds, or holds many of."""
    if isinstance(kind, type) and issubclass(kind, Table):
        return kind
    arguments = getattr(kind, "__args__", ())
    return next((found for part in arguments if (found := _table_in(part)) is not None), None)


def _meanings(module: ModuleType) -> _Meanings:
    """Return what stands under each field of each class in ``module``."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            for field, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    found[node.name, field.target.id] = _text_of(text)
    return found


def _text_of(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _section(table: type[Table], note: str, meanings: _Meanings) -> str:
    title, text = "Top level", "keys outside all tables."
    if found := _TITLE.match(inspect.getdoc(table) or ""):
        title, text = f"`{found[1]}`", " ".join(found[2].split())
    rows = [
        _row(info, meanings.get((table.__name__, info.name), ""))
        for info in fields(table)
        if _table_in(info.type) is None
    ]
    if not rows:
        return ""
    text = _markdown(f"{text[0].upper()}{text[1:]} {note}".strip())
    head = "| key | allowed | default | meaning |\n|---|---|---|---|\n"
    return f"\n## {title}\n\n{textwrap.fill(text, _WIDTH)}\n\n{head}{''.join(rows)}"


def _row(info: FieldInfo, meaning: str) -> str:
    values = allowed(msgspec.inspect.type_info(info.type))
    values = _PATTERN.sub(r"`\1`", _QUOTED.sub(r'`"\1"`', values))
    return f"| `{info.encode_name}` | {values} | {_default(info)} | {_markdown(meaning)} |\n"


def _default(info: FieldInfo) -> str:
    if info.required:
        return "required"
    value = info.default
    if value is None:
        return "unset"
    if info.name.endswith("_bytes") and value:
        size, unit = next((size, unit) for size, unit in _UNITS if value >= size)
        return f"`{value}` ({value // size} {unit})"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Enum() | str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return str(value)


def _below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the commands below ``parser``, those that have commands of their own first."""
    for action in parser._actions:  # noqa: SLF001  (argparse offers no other way to look)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                yield command
                yield from _below(command)


def _command(parser: argparse.ArgumentParser) -> str:
    level = "#" * len(parser.prog.split())
    parts = [f"\n{level} `{parser.prog}`\n"]
    parts += [f"\n```text\n{text}\n```\n" for text in _texts(parser)]
    options = [action for action in parser._actions if _is_shown(action)]  # noqa: SLF001
    if options:
        parts.append("\n| argument | meaning |\n|---|---|\n")
        parts += [_option(parser, action) for action in options]
    return "".join(parts)


def _texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    wraps = parser.formatter_class is argparse.HelpFormatter
    for text in (parser.description, parser.epilog):
        if text:
            yield textwrap.fill(text, _WIDTH) if wraps else text.strip()


def _is_shown(action: argparse.Action) -> bool:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)  # noqa: SLF001
    return not isinstance(action, hidden)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _metavar(action)
    spelled = ", ".join(f"{name} {value}".strip() for name in action.option_strings) or value
    meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
    return f"| `{spelled}` | {_markdown(' '.join(meaning.split()))} |\n"


def _metavar(action: argparse.Action) -> str:
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _markdown(text: str) -> str:
    """Return a docstring's or a help's text as the cell of a table."""
    return text.replace("``", "`").replace("|", "\\|")
