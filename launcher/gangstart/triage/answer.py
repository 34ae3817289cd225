"""A verdict as JSON: docs/triage.schema.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangstart.triage.model import Evidence, Json, Moment, Verdict

SCHEMA = "gangstart.triage"
VERSION = 1


def place(source: str, line: int) -> Json:
    """Where a text was read."""
    return {"source": source, "line": line or None}


def evidence(one: Evidence) -> Json:
    """One piece of evidence; ``untrusted`` text was written by the job or a node."""
    return {
        "text": one.text,
        "untrusted": one.quoted,
        "place": place(one.place.source, one.place.line),
        "time": one.time,
        "node": one.node,
        "rank": one.rank,
    }


def moment(one: Moment) -> Json:
    """One line of the timeline."""
    return {
        "time": one.time,
        "who": one.who,
        "what": one.what,
        "role": one.role,
        "place": place(one.place.source, one.place.line) if one.place else None,
    }


def answer(verdict: Verdict) -> Json:
    """The whole verdict; times are seconds since 1970, null is unknown."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "job": verdict.job.job_id if verdict.job else "",
        "root_cause": verdict.code,
        "sentence": verdict.sentence,
        "confidence": verdict.confidence.value,
        "node": verdict.node,
        "rank": verdict.rank,
        "gpu": verdict.gpu,
        "drain": verdict.drain,
        "training_completed": verdict.training_completed,
        "evidence": [evidence(one) for one in verdict.evidence],
        "secondary": [
            {
                "code": one.code,
                "why": one.why,
                "evidence": [evidence(e) for e in one.evidence],
            }
            for one in verdict.secondary
        ],
        "ruled_out": [{"code": r.code, "why": r.why} for r in verdict.ruled_out],
        "missing": list(verdict.missing),
        "next": [{"command": c.text, "why": c.why} for c in verdict.next],
        "timeline": [moment(one) for one in verdict.timeline],
        "sources": [
            {
                "name": s.name,
                "outcome": s.outcome.value,
                "detail": s.detail,
                "took_s": s.took_s,
            }
            for s in verdict.sources
        ],
    }
