"""Kinds of vectors as the registers of stores have them: JSON, and nothing but the fields."""

import json
from dataclasses import asdict, fields

from stepwell.core.embedding import VectorKind
from stepwell.core.errors import OtherVersion

_FIELDS = frozenset(field.name for field in fields(VectorKind))


def kind_to_json(kind: VectorKind) -> str:
    """Return ``kind`` as `kind_from_json` reads it."""
    return json.dumps(asdict(kind), ensure_ascii=True)


def kind_from_json(text: str) -> VectorKind:
    """Return the kind that a register has.

    Raises:
        OtherVersion: Another version of this package wrote it, which knows more of kinds.
    """
    told = json.loads(text)
    if unknown := told.keys() - _FIELDS:
        raise OtherVersion(f"a kind of vectors has {', '.join(sorted(unknown))}, unknown here")
    return VectorKind(**told)
