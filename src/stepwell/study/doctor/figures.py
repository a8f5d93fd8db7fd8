"""What the doctor found, as JSON has it."""

from typing import Any

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.mending import advice_for, rewrite_for
from stepwell.policy.prompt_shape.prompt import Part
from stepwell.policy.prompt_shape.risks import Risks
from stepwell.study.doctor.findings import Finding, Findings

Json = dict[str, Any]


def figures(findings: Findings) -> Json:
    """Return all figures; tokens are whole numbers."""
    total = findings.prompt_tokens
    found = sorted(findings.found.items(), key=lambda item: -item[1].tokens)
    return {
        "lines": findings.lines,
        "requests": findings.requests,
        "unusable": dict(findings.unusable),
        "broken_files": findings.broken_files,
        "tokens_estimated": findings.estimated,
        "prompt_tokens": round(total),
        "shared": _share(findings.shared_tokens, total),
        "shared_after_rewrites": _share(findings.reshaped_tokens, findings.reshaped_prompt_tokens),
        "requests_rewritten": findings.reshaped,
        "rewrites": sorted(findings.rewrites),
        "risks": None if findings.risks is None else risks_as_json(findings.risks),
        "findings": [_finding(cause, part, one, total) for (cause, part), one in found],
    }


def risks_as_json(risks: Risks) -> Json:
    """Return what stands in the way in a single request."""
    return {
        "prompt_tokens": risks.prompt_tokens,
        "tokens_at_risk": risks.tokens_at_risk,
        "found": [
            {
                "cause": str(risk.cause),
                "where": str(risk.part),
                "said": risk.said,
                "at_token": risk.at_token,
                "rewrite": rewrite_for(risk.cause, risk.part),
            }
            for risk in risks.found
        ],
    }


def _share(tokens: float, total: float) -> Json:
    return {"tokens": round(tokens), "share": round(tokens / total, 4) if total else 0.0}


def _finding(cause: Cause, part: Part, finding: Finding, total: float) -> Json:
    rewrite = rewrite_for(cause, part)
    example = finding.example
    return {
        "cause": str(cause),
        "where": str(part),
        "is_fault": cause.is_fault,
        "requests": finding.requests,
        "lost": _share(finding.tokens, total),
        "saved_if_mended_alone": round(finding.tokens_alone),
        "rewrite": rewrite,
        "advice": advice_for(cause) if rewrite is None else None,
        "example": {"before": example.before, "old": example.old, "new": example.new},
    }
