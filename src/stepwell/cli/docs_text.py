"""What ``stepwell docs`` prints."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from stepwell.study.terminal import plain, visible
from stepwell.telemetry.tables import table

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.core.documents import CollectionState, EditionFigures, Passage
    from stepwell.embedding.documents.sources import Unread
    from stepwell.embedding.documents.summary import Summary

_SHOWN = 300
_NAME = 80


def summary_as_row(collection: str, summary: "Summary") -> Mapping[str, object]:
    """Return a run as JSON has it."""
    return {
        "collection": collection,
        "added": summary.added,
        "changed": summary.changed,
        "annotated": summary.annotated,
        "removed": summary.removed,
        "unchanged": summary.unchanged,
        "failed": [
            # Names of files may be no Unicode, which JSON must be.
            {"name": failed.name.encode(errors="backslashreplace").decode(), "why": failed.why}
            for failed in summary.failed
        ],
        "chunks": summary.chunks,
        "embedded": summary.embedded,
        "from_cache": summary.from_cache,
        "unfit": summary.unfit,
        "unforgotten": summary.unforgotten,
        "seconds": round(summary.seconds, 3),
    }


def summary_as_text(collection: str, summary: "Summary", *, dry: bool) -> str:
    """Return a run as people read it."""
    counts = (
        (summary.added, "added"),
        (summary.changed, "changed"),
        (summary.annotated, "with other metadata"),
        (summary.removed, "removed"),
        (summary.unchanged, "unchanged"),
        (len(summary.failed), "failed"),
    )
    told = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    lines = [f"{collection}: {told or 'nothing to do'}{' (dry run)' if dry else ''}"]
    if summary.chunks:
        cached = f", {summary.from_cache:,} from the cache" if summary.from_cache else ""
        unfit = f", {summary.unfit:,} without words" if summary.unfit else ""
        embedded = f"{summary.embedded:,} {'to embed' if dry else 'embedded'}"
        lines.append(f"  {summary.chunks:,} chunks: {embedded}{cached}{unfit}")
    lines.append(f"  {summary.seconds:,.1f} s")
    return "\n".join(lines) + "\n"


def failed_as_line(failed: "Unread", source: Path) -> str:
    """Return what failed, and why, on one line. Names are strangers': they may say anything."""
    name = failed.name or str(source)
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    return visible(f"{shown}: {failed.why}").replace("\n", "\\n")


def as_row(state: "CollectionState", figures: "EditionFigures") -> dict[str, object]:
    """Return a collection as JSON has it."""
    recipe = state.recipe
    return {
        "name": state.name,
        "documents": figures.documents,
        "passages": figures.passages,
        "model": None if recipe is None else recipe.kind.model,
        "dimensions": None if recipe is None else recipe.dimensions,
        "chunker": None if recipe is None else recipe.chunker,
    }


def collections_as_text(
    rows: Iterable[tuple["CollectionState", "EditionFigures"]],
) -> str:
    """Return collections as people read them."""
    lines = [["collection", "documents", "passages", "embedded by"]]
    for state, figures in rows:
        model = "nothing yet" if state.recipe is None else state.recipe.kind.model
        lines.append([state.name, f"{figures.documents:,}", f"{figures.passages:,}", model])
    return table(lines) + "\n" if len(lines) > 1 else "There are no collections.\n"


def passage_as_row(passage: "Passage") -> Mapping[str, object]:
    """Return a passage as JSON has it."""
    return {
        "document": passage.document,
        "similarity": round(passage.similarity, 4),
        "start": passage.start,
        "text": passage.text,
        "metadata": orjson.Fragment(passage.metadata),
        "updated_at": passage.updated_at,
    }


def passages_as_text(passages: "Sequence[Passage]") -> str:
    """Return passages as people read them."""
    return "".join(map(_passage_as_text, passages)) or "There is nothing in the collection.\n"


def _passage_as_text(passage: "Passage") -> str:
    name, day = plain(passage.document, _NAME), _day(passage.updated_at)
    return f"{passage.similarity:.3f}  {name}{day}\n       {plain(passage.text, _SHOWN)}\n"


def _day(seconds: float) -> str:
    try:
        return f"  ({datetime.fromtimestamp(seconds, UTC):%Y-%m-%d})" if seconds else ""
    except (OverflowError, OSError, ValueError):
        return ""
