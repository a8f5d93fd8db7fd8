"""What the doctor found, as text for a terminal."""

from typing import Any

from stepwell.study.terminal import plain
from stepwell.telemetry.tables import share, table

Json = dict[str, Any]

_SHOWN = 40
_CONTEXT = 30


def as_text(figures: Json) -> str:
    """Return the figures of `stepwell.study.doctor.figures`, ending in a line feed."""
    blocks = [_head(figures), _notes(figures)]
    if figures["risks"] is not None:
        blocks.append(risks_as_text(figures["risks"]))
    elif figures["findings"]:
        blocks += [_table(figures["findings"]), _examples(figures["findings"])]
    elif figures["requests"]:
        blocks.append("Nothing parts prompts that go on alike.")
    return "\n\n".join(block for block in blocks if block) + "\n"


def risks_as_text(risks: Json) -> str:
    """Return what stands in the way in a single request."""
    if not risks["found"]:
        return "Nothing in its head is likely to change by itself."
    rows = [["likely to change", "in", "at token", "rewrite", "says"]]
    rows += [
        [
            found["cause"],
            found["where"],
            f"{found['at_token']:,}",
            found["rewrite"] or "by hand",
            plain(found["said"], _SHOWN),
        ]
        for found in risks["found"]
    ]
    return (
        f"{table(rows)}\n\nWhen the first of these changes, {risks['tokens_at_risk']:,} of"
        f" {risks['prompt_tokens']:,} prompt tokens are computed anew."
    )


def _head(figures: Json) -> str:
    requests, today, after = (
        figures["requests"],
        figures["shared"],
        figures["shared_after_rewrites"],
    )
    text = f"{_requests(requests)}, {figures['prompt_tokens']:,} prompt tokens."
    if requests < 2:  # noqa: PLR2004  (two can be compared)
        return text
    return (
        f"{text}\nPrompts begin like an earlier one, word for word, for {share(today['share'])} of"
        f" their tokens ({today['tokens']:,});\nafter the rewrites {', '.join(figures['rewrites'])}"
        f"\n(they change {_requests(figures['requests_rewritten'])}),"
        f" for {share(after['share'])} ({after['tokens']:,})."
    )


def _requests(number: int) -> str:
    return f"{number:,} request{'' if number == 1 else 's'}"


def _notes(figures: Json) -> str:
    notes = [f"passed over, {plain(why, 60)}: {n:,}" for why, n in figures["unusable"].items()]
    notes += [plain(broken, 300) for broken in figures["broken_files"]]
    if figures["tokens_estimated"]:
        notes.append(
            "tokens estimated, one a CJK character and else four characters each: "
            f"{_requests(figures['tokens_estimated'])}"
        )
    return "\n".join(notes)


def _table(findings: list[Json]) -> str:
    rows = [["what parts prompts", "in", "requests", "tokens lost", "of all", "alone", "rewrite"]]
    rows += [
        [
            found["cause"],
            found["where"],
            f"{found['requests']:,}",
            f"{found['lost']['tokens']:,}",
            share(found["lost"]["share"]),
            f"{found['saved_if_mended_alone']:,}",
            found["rewrite"] or ("by hand" if found["is_fault"] else "no fault"),
        ]
        for found in findings
    ]
    return table(rows)


def _examples(findings: list[Json]) -> str:
    lines = ["Where it happens, the costliest of each (then, and next time):"]
    for found in findings:
        example = found["example"]
        before = example["before"][-_CONTEXT:]
        lines.append(f"  {found['cause']}, {found['where']}")
        lines += [
            f"    {plain(before, _CONTEXT)} [{plain(said, _SHOWN)}]"
            for said in (example["old"], example["new"])
        ]
        if found["advice"]:
            lines.append(f"    to mend: {found['advice']}")
    return "\n".join(lines)
