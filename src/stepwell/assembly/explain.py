"""From a validator's complaint to a sentence an operator can act on."""

import difflib
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

_AT = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`?key`? in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


def explain(error: msgspec.ValidationError, data: Mapping[str, Any], table: type) -> str:
    """Return what is wrong with ``data``: the key in dotted form, its value, what is allowed.

    Args:
        error: What converting ``data`` to ``table`` raised.
        data: The parsed file.
        table: The type of the whole file.
    """
    return _explain(str(error), data, inspect.type_info(table), ())


def _explain(
    message: str,
    data: Any,  # noqa: ANN401  (any TOML value)
    kind: inspect.Type,
    prefix: tuple[str, ...],
) -> str:
    found = _AT.match(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    names = list(prefix)
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", path):
        if index == "...":
            return _explain_member(what, data, kind, tuple(names))
        names.append(name or index)
        data, kind = _enter(data, kind, name or int(index))
    dotted = ".".join(names)
    if found and found["key"] and isinstance(kind, inspect.DictType):
        return f"{dotted}: one of the names {', '.join(data)}; allowed: {allowed(kind.key_type)}."
    if unknown := _UNKNOWN.match(what):
        return _unknown(unknown["name"], kind, dotted)
    if missing := _MISSING.match(what):
        return f"{dotted}.{missing['name']} is missing."
    if what.startswith(("Expected", "Invalid")):
        return f"{dotted} is {data!r}; allowed: {allowed(kind)}."
    return f"{dotted + ': ' if dotted else ''}{what}."


def _explain_member(what: str, data: Any, kind: inspect.Type, prefix: tuple[str, ...]) -> str:  # noqa: ANN401  (any TOML value)
    """Find the member of a mapping that is wrong; the validator does not name it."""
    kind = _plain(kind)
    if isinstance(kind, inspect.DictType) and isinstance(data, Mapping):
        for name, value in data.items():
            if isinstance(kind.value_type, inspect.StructType):
                try:
                    msgspec.convert(value, kind.value_type.cls)
                except msgspec.ValidationError as error:
                    return _explain(str(error), value, kind.value_type, (*prefix, name))
    return f"{'.'.join(prefix)}: {what}."


def _unknown(name: str, kind: inspect.Type, dotted: str) -> str:
    kind = _plain(kind)
    fields = kind.fields if isinstance(kind, inspect.StructType) else ()
    known = sorted(field.encode_name for field in fields)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    where = f"{dotted}.{name}" if dotted else name
    return f"{where} is not a setting.{hint} Known here: {', '.join(known)}."


def _enter(data: Any, kind: inspect.Type, step: str | int) -> tuple[Any, inspect.Type]:  # noqa: ANN401  (any TOML value)
    """Return the value and the type of a member."""
    kind = _plain(kind)
    try:
        value = data[step]
    except (KeyError, IndexError, TypeError):
        value = None
    if isinstance(kind, inspect.StructType):
        members = [field.type for field in kind.fields if field.encode_name == step]
        return value, members[0]
    if isinstance(kind, inspect.VarTupleType):
        return value, kind.item_type
    return value, kind


def _plain(kind: inspect.Type) -> inspect.Type:
    """Return a type without its ``None``."""
    if isinstance(kind, inspect.UnionType):
        return next(part for part in kind.types if not isinstance(part, inspect.NoneType))
    return kind


def allowed(kind: inspect.Type) -> str:  # noqa: PLR0911  (a table of cases)
    """Return the values a type allows, in words."""
    kind = _plain(kind)
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return f"{_number(kind)}{_range(kind)}"
        case inspect.StrType(pattern=None):
            return "a string" if kind.min_length is None else "a string that is not empty"
        case inspect.StrType():
            return f"a string that matches {kind.pattern}"
        case inspect.LiteralType():
            return ", ".join(repr(value) for value in kind.values)
        case inspect.EnumType():
            return ", ".join(repr(str(member)) for member in kind.cls)
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType():
            least = "" if kind.min_length is None else f" of at least {kind.min_length}"
            return f"a list{least}, each item {allowed(kind.item_type)}"
        case _:
            return "a table"


def _number(kind: inspect.IntType | inspect.FloatType) -> str:
    return "an integer" if isinstance(kind, inspect.IntType) else "a number"


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g} and at most {kind.le}"
    return (
        "" if kind.ge is None else f" from {kind.ge}{'' if kind.le is None else f' to {kind.le}'}"
    )
