"""A verdict as JSON: docs/triage.schema.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangstart.triage.model import (
        Attempt,
        Evidence,
        Json,
        Moment,
        Pictured,
        Sample,
        Verdict,
    )

SCHEMA = "gangstart.triage"
VERSION = 2


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
        "node": one.node,
        "rank": one.rank,
    }


def run(one: Attempt) -> Json:
    """The run of the job that the verdict is about, as Slurm accounts for it."""
    return {
        "restart": one.restart,
        "state": one.state,
        "start": one.start,
        "end": one.end,
    }


def points(samples: tuple[Sample, ...]) -> list[list[float]]:
    """Values as pairs of time and value."""
    return [[one.time, one.value] for one in samples]


def series(one: Pictured) -> Json:
    """Values of one quantity of a suspect, and of the others if there are any."""
    told = one.series
    others = {"count": one.others, "median": points(one.median)}
    return {
        "quantity": told.quantity,
        "unit": told.unit,
        "node": told.node,
        "device": told.device,
        "query": told.query,
        "samples": points(told.samples),
        "others": others if one.others else None,
    }


def answer(verdict: Verdict) -> Json:
    """The whole verdict; times are seconds since 1970, null is unknown."""
    attempts = verdict.job.attempts if verdict.job else ()
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "job": verdict.job.job_id if verdict.job else "",
        "run": run(attempts[-1]) if attempts else None,
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
        "series": [series(one) for one in verdict.series],
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
