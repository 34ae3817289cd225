"""A triage case as the product's own model, and its verdict as an answer."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from gangstart import core
from gangstart.errors import GangstartError
from gangstart.triage import story
from gangstart.triage.attribute import attribute
from gangstart.triage.clock import duration, iso
from gangstart.triage.gather import Log, Reading, node_of_file, rank_of_file
from gangstart.triage.judge import judge
from gangstart.triage.model import (
    Attempt,
    GpuUse,
    Job,
    Layout,
    NodeState,
    Outcome,
    PastJob,
    Place,
    Sample,
    Series,
    SourceState,
    Step,
    Trace,
)
from gangstart.triage.source import checks, metrics

Json = dict[str, Any]

#: Cases have times without a zone beside seconds since 1970: those of UTC.
os.environ["TZ"] = "UTC0"
time.tzset()


def names(nodelist: str) -> tuple[str, ...]:
    try:
        return tuple(core.expand(nodelist)) if nodelist else ()
    except GangstartError:
        return ()


def codes(text: str | None) -> tuple[int, int]:
    found = re.match(r"(\d+):(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else (0, 0)


def step(row: Json) -> Step:
    code, signal = codes(row.get("ExitCode"))
    return Step(
        row["JobID"].split(".", 1)[1],
        row.get("State", "").split(" ")[0],
        code,
        signal,
        names(row.get("NodeList", "")),
    )


def attempt(row: Json, steps: list[Json], place: int) -> Attempt:
    code, signal = codes(row.get("ExitCode"))
    derived = codes(row.get("DerivedExitCode"))
    state = row.get("State", "")
    by = re.search(r"by (\d+)", state)
    return Attempt(
        row.get("Restarts", place),
        state.split(" ")[0],
        code,
        signal,
        derived[0] or None,
        derived[1] or None,
        int(by[1]) if by else None,
        names(row.get("NodeList", "")),
        iso(row.get("Start", "")),
        iso(row.get("End", "")),
        duration(row.get("Elapsed", "")),
        steps=tuple(step(one) for one in steps),
    )


def job(given: Json) -> Job:
    rows = given.get("sacct") or []
    whole = [row for row in rows if "." not in row["JobID"]]
    parts = [row for row in rows if "." in row["JobID"]]
    attempts = tuple(attempt(row, parts, i) for i, row in enumerate(whole))
    queued = given.get("squeue") or {}
    last = attempts[-1] if attempts else None
    return Job(
        str(given.get("jobid") or (rows[0]["JobID"] if rows else "")),
        state=queued.get("State") or (last.state if last else ""),
        reason=queued.get("Reason", ""),
        restarts=queued.get("Restarts", 0),
        nodes=last.nodes if last else (),
        attempts=attempts,
    )


def layout(given: Json) -> Layout:
    gang = given.get("gang") or {}
    ranks = {int(rank): node for rank, node in (gang.get("rank_to_node") or {}).items()}
    offsets = gang.get("clock_offset_s") or {}
    return Layout(
        ranks,
        {node: float(value) for node, value in offsets.items()},
        {node: tuple(pids) for node, pids in (gang.get("pids") or {}).items()},
        gang.get("master", ""),
        gang.get("outcome", ""),
        gang.get("reason", ""),
        gang.get("message", ""),
        tuple(gang.get("missing_ranks") or ()),
        tuple(gang.get("blamed_nodes") or gang.get("missing_nodes") or ()),
        given.get("addresses") or {},
    )


def node_states(given: Json) -> dict[str, NodeState]:
    made = {}
    for name, state in (given.get("sinfo") or {}).items():
        found = re.match(r"(\S+)(?: \((.*)\))?", state)
        made[name] = NodeState(
            name, found[1].upper() if found else "", (found[2] or "") if found else ""
        )
    for name, row in (given.get("nodes") or {}).items():
        reason = row.get("Reason", "")
        made[name] = NodeState(
            name, row.get("State", ""), reason.split(" [")[0], iso(reason)
        )
    return made


def series(given: Json) -> list[Series]:
    made = []
    for one in given.get("prometheus") or []:
        row = metrics.BY_METRIC.get(one["metric"])
        if row is None:
            continue
        labels = one.get("labels") or {}
        node = metrics.host(metrics.first(labels, metrics.NODE_LABELS))
        samples = [
            Sample(at, float(value) * row.scale)
            for when, value in one["samples"]
            if (at := iso(when) if isinstance(when, str) else float(when)) is not None
        ]
        device = metrics.device_of(row, labels)
        made.append(
            Series(row.quantity, node, device, tuple(samples), one["metric"], row.unit)
        )
    return made


def uses(given: Json) -> list[GpuUse]:
    return [
        GpuUse(
            node,
            int(gpu),
            row.get("mem_used_mib"),
            {p["pid"]: float(p.get("mem_mib") or 0) for p in row.get("procs") or []},
        )
        for node, gpus in (given.get("health_pre") or {}).items()
        for gpu, row in gpus.items()
    ]


def past(given: Json) -> list[PastJob]:
    return [
        PastJob(
            row["JobID"],
            row.get("User", ""),
            row.get("State", ""),
            names(row.get("NodeList", "")),
            codes(row.get("ExitCode"))[0],
            duration(row.get("Elapsed", "")),
        )
        for row in given.get("history") or []
    ]


def logs(given: Json, trace: Trace) -> list[Log]:
    nodes = frozenset(trace.job.nodes) | frozenset(trace.layout.rank_node.values())
    last = trace.job.attempts[-1] if trace.job.attempts else None
    near = (last.start or last.end) if last else None
    made = []
    for path, lines in (given.get("files") or {}).items():
        reading = Reading(nodes, near, node_of_file(path, nodes), rank_of_file(path))
        made.append((Log(path, reading), lines))
    for node, lines in (given.get("dmesg") or {}).items():
        made.append(
            (Log(f"dmesg:{node}", Reading(nodes, near, node, kernel=True)), lines)
        )
    if given.get("slurmctld"):
        made.append((Log("slurmctld.log", Reading(nodes, near)), given["slurmctld"]))
    for log, lines in made:
        log.feed_lines(lines)
        log.finish()
    return [log for log, _ in made]


def triage(given: Json) -> Json:
    """The product's verdict on a case."""
    trace = Trace(
        job(given),
        layout(given),
        [],
        node_states(given),
        series(given),
        uses(given),
        past(given),
        log_end=iso(given.get("log_mtime", "")),
    )
    used = Outcome.USED if given.get("files") else Outcome.ABSENT
    trace.sources.append(SourceState("logs", used))
    for node, records in (given.get("checks") or {}).items():
        for line, told in enumerate(records, 1):
            place = Place(f"{node}/sys/events.jsonl", line)
            events, held = checks.record(node, told, place)
            trace.events += events
            trace.gpu_uses += held
    trace.standings = {n: tuple(s) for n, s in (given.get("standings") or {}).items()}
    facts = attribute(trace, logs(given, trace))
    verdict = judge(facts)
    return {
        "root_cause": verdict.code,
        "secondary": [one.code for one in verdict.secondary],
        "node": verdict.node,
        "rank": verdict.rank,
        "drain": verdict.drain,
        "training_completed": verdict.training_completed,
        "confidence": verdict.confidence.value,
        "text": story.text(verdict),
    }
