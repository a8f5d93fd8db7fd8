"""What ``stepwell embeddings`` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepwell.core.embedding import VersionFigures
from stepwell.study.terminal import plain
from stepwell.telemetry.tables import share, table

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.assembly.embedding_audit import Audited

SHOWN = 20
"""Differences that are printed; JSON has all."""

_WHERE = 300
"""Characters of a key, or a server's trouble."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of an old version is in a new one."""

    old: str
    new: str
    texts: int
    covered: int


def audit_as_json(audited: "Audited") -> dict[str, object]:
    """Return an audit for programs."""
    return {
        "agree": not audited.differences,
        "full_read": audited.full_read,
        "redis_keys": sum(audited.redis_keys.values()),
        "compared": audited.compared,
        "deletions": audited.deletions,
        "differences": [
            {"what": it.what, "where": plain(it.where, _WHERE)} for it in audited.differences
        ],
    }


def audit_as_text(audited: "Audited", repaired: int) -> str:
    """Return an audit for people."""
    keys = sum(audited.redis_keys.values())
    lines = [
        f"full store     {audited.full_read:,} vectors read",
        f"redis          {audited.compared:,} of {keys:,} keys compared",
        f"deletions      {audited.deletions:,} late ones looked for in Redis",
        f"differences    {len(audited.differences):,}",
    ]
    lines += [f"  {it.what:<9} {plain(it.where, _WHERE)}" for it in audited.differences[:SHOWN]]
    if len(audited.differences) > SHOWN:
        lines.append(f"  and {len(audited.differences) - SHOWN:,} more; --json has all")
    if repaired:
        lines.append(f"repaired       {repaired:,} removed from Redis")
    return "\n".join(lines) + "\n"


def stats_as_json(
    tier: str,
    versions: Sequence[VersionFigures],
    keys: Mapping[str, int] | None,
    coverage: Coverage | None,
) -> dict[str, object]:
    """Return figures for programs."""
    return {
        "tier": tier,
        "versions": [
            {
                "version": it.kind.version,
                "kind": asdict(it.kind),
                "vectors": it.vectors,
                "bytes": it.bytes,
                "with_text": it.with_text,
                "redis_keys": None if keys is None else keys.get(it.kind.version, 0),
                "created_at": it.created_at,
                "used_at": it.used_at,
            }
            for it in versions
        ],
        "coverage": None if coverage is None else asdict(coverage),
    }


def stats_as_text(
    tier: str,
    versions: Sequence[VersionFigures],
    keys: Mapping[str, int] | None,
    coverage: Coverage | None,
) -> str:
    """Return figures for people, as a table."""
    rows = [["version", "vectors", "MB", "with text", "in redis", "created", "used"]]
    rows += [
        [
            it.kind.version,
            f"{it.vectors:,}",
            f"{it.bytes / 1e6:,.1f}",
            f"{it.with_text:,}",
            "-" if keys is None else f"{keys.get(it.kind.version, 0):,}",
            _day(it.created_at),
            _day(it.used_at),
        ]
        for it in versions
    ]
    text = f"full store: {tier}\n{table(rows)}\n"
    if coverage is not None:
        ratio = coverage.covered / coverage.texts if coverage.texts else None
        text += (
            f"{coverage.covered:,} of {coverage.texts:,} texts of {coverage.old}"
            f" ({share(ratio)}) have a vector in {coverage.new}\n"
        )
    return text


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
