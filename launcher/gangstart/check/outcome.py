"""The outcome of a check as one JSON object: the record, and what --json prints."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from gangstart.check import gpupart, leftover
from gangstart.check.catalogue import hit
from gangstart.check.judge import name_of
from gangstart.check.result import VERDICTS, clean, worst
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.check.cleanup import Outcome
    from gangstart.check.node import Check
    from gangstart.check.record import Event
    from gangstart.check.result import Finding
    from gangstart.check.scan import Scene
    from gangstart.gpuanswer import Health

SCHEMA = "gangstart.check"
VERSION = 1
REASONS = 3
LISTED = 1000
REASON_CHARS = 300
NO_SAMPLE = "no earlier sample of this job"


def last_of(recorded: Sequence[Event], stage: str) -> Event:
    """The newest record of a stage, {} if there is none."""
    return next((e for e in reversed(recorded) if e.get("stage") == stage), {})


def time_of(event: Event) -> float | None:
    """When a record was made, None if it does not say."""
    when = event.get("time")
    return float(when) if isinstance(when, (int, float)) else None


def heading(check: Check, kind: str) -> Event:
    """What every record begins with."""
    return {
        "event": kind,
        "schema": SCHEMA,
        "version": VERSION,
        "time": check.world.now(),
        "node": check.request.node,
        "stage": check.request.stage,
        "job": check.job.job_id if check.job else None,
        "job_uid": check.job.uid if check.job else None,
    }


def event(check: Check, health: Health, *, reused: bool) -> Event:
    """Everything that was found, and what follows."""
    found = compared(check, health)
    hits = all_hits(check.findings, health.event, found["found"] if found else [])
    verdicts = [
        "ok" if health.none else health.verdict,
        *(f.verdict for f in check.findings),
        *(str(d.get("verdict")) for d in (found["found"] if found else [])),
    ]
    # A warning drains too where the core says so: what only a reset mends once a job
    # is over. What could not be looked at never does.
    gpu_drains = health.drain and health.verdict in ("warn", "fail")
    others = any(f.drain and f.verdict == "fail" for f in check.findings)
    return heading(check, "check") | {
        "verdict": worst(verdicts),
        "drain": gpu_drains or others,
        "reason": reason(hits, health) + cleaned_up(check.outcomes),
        "took_ms": int((time.monotonic() - check.begun) * 1000),
        "gpu": {
            "verdict": health.verdict,
            "drain": health.drain,
            "none": health.none,
            "sentence": clean(health.sentence, REASON_CHARS),
            "reused": reused,
            "event": health.event,
        },
        "findings": [asdict(f) for f in check.findings],
        "leftovers": leftovers(check),
        "cleanup": {
            "mode": check.request.cleanup,
            "outcomes": [asdict(one) for one in check.outcomes],
        },
        "differences": found,
    }


def all_hits(
    own: Sequence[Finding],
    gpu_event: Event,
    differences: Sequence[Mapping[str, Any]],
) -> list[tuple[str, str]]:
    """(Verdict, reason) of every hit, the worst first."""
    found = [(f.verdict, f.reason) for f in own if f.kind == "hit"]
    found += [
        (str(f.get("verdict")), str(f.get("reason")))
        for f in gpupart.rows(gpu_event, "findings")
        if f.get("kind") == "hit" and f.get("verdict") != "ok"
    ]
    found += [
        (str(d.get("verdict")), str(d.get("reason")))
        for d in differences
        if d.get("verdict") not in ("ok", None)
    ]
    known = [
        (v if v in VERDICTS else "unknown", clean(r, REASON_CHARS)) for v, r in found
    ]
    return sorted(dict.fromkeys(known), key=lambda one: -VERDICTS.index(one[0]))


def reason(hits: Sequence[tuple[str, str]], health: Health) -> str:
    """The worst reasons in one line; without one, what is said of the GPUs."""
    said = [text for _, text in hits[:REASONS]]
    if len(hits) > REASONS:
        said.append(f"and {len(hits) - REASONS} more")
    return "; ".join(said) or clean(health.sentence, REASON_CHARS) or "nothing found"


def cleaned_up(outcomes: Sequence[Outcome]) -> str:
    """What was ended and removed, for the line that a log keeps."""
    done = [f"{clean(one.what)} {one.how}" for one in outcomes if one.done]
    if not done:
        return ""
    more = f" and {len(done) - REASONS} more" if len(done) > REASONS else ""
    return "; cleaned up: " + ", ".join(done[:REASONS]) + more


def compared(check: Check, health: Health) -> Event | None:
    """What differs from the job's first sample; only after the job."""
    if check.request.stage != "epilog":
        return None
    first = last_of(check.recorded, "prolog")
    before = gpupart.from_record(first.get("gpu", first))
    if before is None:
        return {"compared": False, "note": NO_SAMPLE, "found": []}
    try:
        differences = check.world.differences(
            before.event, health.event, check.request.conf
        )
    except GangstartError as error:
        return {"compared": False, "note": error.message, "found": []}
    found = [as_object(one) for one in differences]
    return {"compared": True, "note": "", "found": found}


def as_object(difference: Any) -> Event:  # noqa: ANN401 - see gpupart.Differences
    """One difference for JSON, however its maker keeps it."""
    if is_dataclass(difference) and not isinstance(difference, type):
        return asdict(difference)
    return dict(difference)


def leftovers(check: Check) -> Event:
    """What is left over, for programs."""
    scene = check.scene
    return {
        "processes": [
            {
                "pid": o.process.pid,
                "uid": o.process.uid,
                "job": o.job,
                "proof": o.proof,
                "program": name_of(scene.seen[o.process.pid]) if scene else "?",
                "state": scene.seen[o.process.pid].state if scene else "?",
                "started": o.process.started,
                "gpu_memory_mib": o.process.gpu_memory_mib,
                "devices": list(o.process.devices),
                "ports": list(o.process.ports),
            }
            for o in check.left.orphans[:LISTED]
        ],
        "shm": [clean(name) for name in check.left.shm[:LISTED]],
        "running": check.running,
    }


def of_cleanup(one: Outcome) -> Finding:
    """What became of one thing that was left over."""
    return hit(
        "clean_up",
        f"{clean(one.what)}: {one.how}",
        verdict="ok" if one.done else "warn",
        subject=clean(one.what),
    )


def inside_job(scene: Scene, stage: str) -> list[Finding]:
    """Say that this check runs inside of a job: PrologFlags=RunInJob."""
    me = scene.seen.get(os.getpid())
    job = leftover.job_of_cgroup(me.process.cgroup) if me else None
    if job is None or stage == "node":
        return []
    return [
        hit(
            "run_in_job",
            f"this check runs inside of job {job}'s cgroup (PrologFlags=RunInJob): it "
            "may see only the job's GPUs, and SPANK prolog and epilog hooks are not "
            "called",
        )
    ]
