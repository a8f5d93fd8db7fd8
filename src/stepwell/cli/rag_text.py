"""What ``stepwell rag`` prints."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepwell.study.terminal import plain
from stepwell.telemetry.tables import table

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.rag.reply import Reply

_NAME = 80
_ANSWER = 100_000


def reply_as_row(question: str, reply: "Reply") -> Mapping[str, object]:
    """Return a reply as JSON has it."""
    return {
        "question": question,
        "answer": reply.answer,
        "last_updated": _time(reply.last_updated),
        "documents": [*reply.documents],
        "passages": [
            {
                "document": passage.document,
                "start": passage.start,
                "similarity": round(passage.similarity, 4),
                "updated_at": _time(passage.updated_at),
            }
            for passage in reply.passages
        ],
        "stages": [
            {
                "stage": stage.name,
                "milliseconds": round(stage.milliseconds, 3),
                "outcome": stage.outcome,
                "detail": stage.detail,
            }
            for stage in reply.stages
        ],
        "milliseconds": round(reply.milliseconds, 3),
    }


def reply_as_text(reply: "Reply") -> str:
    """Return a reply as people read it."""
    paragraphs = [plain(line, _ANSWER) for line in reply.answer.strip().splitlines()]
    updated = _time(reply.last_updated)
    sources = [f"  {plain(name, _NAME)}" for name in reply.documents]
    parts = [
        "\n".join(paragraphs),
        "\n".join([f"From (last updated {updated}):" if updated else "From:", *sources]),
        _stages(reply),
    ]
    return "\n\n".join(parts) + "\n"


def _stages(reply: "Reply") -> str:
    told = [
        f"{stage.outcome}, {stage.detail}" if stage.detail else str(stage.outcome)
        for stage in reply.stages
    ]
    width = max(map(len, told))  # To the left, as words are.
    rows = [["stage", "outcome".ljust(width), "ms"]]
    for stage, outcome in zip(reply.stages, told, strict=True):
        rows.append([stage.name, outcome.ljust(width), f"{stage.milliseconds:,.1f}"])
    rows.append(["total", "", f"{reply.milliseconds:,.1f}"])
    return table(rows)


def _time(seconds: float) -> str | None:
    """Return a time as ISO 8601 has it; ``None`` if it is not known, or no time."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else None
    except (OverflowError, OSError, ValueError):
        return None
