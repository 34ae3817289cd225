"""What Slurm, a person or a limit did, and nodes that Slurm lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangstart.triage.cause import END, MACHINE, Cause, Facts
from gangstart.triage.model import Confidence
from gangstart.triage.rule.hardware import is_stale, simple
from gangstart.triage.rule.signals import stopped

if TYPE_CHECKING:
    from gangstart.triage.model import Event, NodeState

SILENT_S = 1800.0  # torch's default time-out of a collective

REASONS = {
    "NODE FAILURE": "NODE_FAIL",
    "TIME LIMIT": "TIME_LIMIT",
    "PREEMPTION": "PREEMPTED",
    "JOB NOT ENDING WITH SIGNALS": "KILL_TASK_FAILED",
    "TASK FAILURE": "",
}
STATES = {
    "TIMEOUT": "TIME_LIMIT",
    "DEADLINE": "TIME_LIMIT",
    "PREEMPTED": "PREEMPTED",
    "NODE_FAIL": "NODE_FAIL",
    "BOOT_FAIL": "NODE_FAIL",
}


def ended(facts: Facts, code: str) -> list[Event]:
    """Lines in which Slurm says that it ended the job for this reason."""
    return [
        e
        for e in facts.of("slurm_end")
        if REASONS.get(e.fields.get("reason", "").strip()) == code
    ]


def _down(facts: Facts) -> list[NodeState]:
    states = [
        n
        for n in facts.trace.nodes.values()
        if not facts.nodes or n.name in facts.nodes
    ]
    return [
        n
        for n in states
        if re.search(r"(?i)down|fail|not_responding", n.state)
        or re.search(r"(?i)not responding|unexpectedly rebooted", n.reason)
    ]


def node_failure(facts: Facts) -> list[Cause]:
    """A node went away."""
    told = facts.of("node_failure") + ended(facts, "NODE_FAIL")
    state = facts.state if STATES.get(facts.state) == "NODE_FAIL" else ""
    if not told and not state:
        return []
    named = [e.node for e in facts.of("node_failure") if e.node]
    silent = facts.of("node_not_responding")
    named += [n for e in silent if (n := e.node or e.fields.get("node2"))]
    down = [n.name for n in _down(facts)]
    name = next((n for n in named if n in down), None)
    name = (
        name or (named[0] if named else None) or (down[0] if len(down) == 1 else None)
    )
    why = next((n.reason for n in _down(facts) if n.name == name and n.reason), "")
    return [
        Cause(
            "NODE_FAIL",
            MACHINE,
            told + silent[:2],
            name,
            confidence=Confidence.PROVEN,
            what=f"node {name or '(not named in what was looked at)'} failed"
            + (f" (Slurm's reason: {why})" if why else ""),
        )
    ]


def time_limit(facts: Facts) -> list[Cause]:
    """The time limit was reached."""
    events = ended(facts, "TIME_LIMIT")
    if not events and STATES.get(facts.state) != "TIME_LIMIT":
        return []
    silent = _silence(facts, events)
    seen = stopped(facts)
    cause = Cause(
        "TIME_LIMIT",
        END,
        events,
        confidence=Confidence.PROVEN,
        what="the job reached its time limit",
    )
    cause.notes += [silent] if silent else []
    if seen:
        cause.notes.append(f"it hung before that: {seen.events[0].text}")
    return [cause]


def _silence(facts: Facts, events: list[Event]) -> str:
    """How long the log had been silent before Slurm ended the job."""
    end = events[0].time if events else (facts.attempt.end if facts.attempt else None)
    before = [p.time for p in facts.progress if p.time is not None]
    last = facts.trace.log_end or max(before, default=None)
    if end is None or last is None or end - last < SILENT_S:
        return ""
    return f"the log had been silent for {(end - last) / 3600:.1f} h before that"


def preempted(facts: Facts) -> list[Cause]:
    """A job of higher priority took the nodes."""
    events = ended(facts, "PREEMPTED")
    if not events and facts.state != "PREEMPTED":
        return []
    return [
        Cause(
            "PREEMPTED",
            END,
            events,
            confidence=Confidence.PROVEN,
            what="Slurm took the nodes for a job of higher priority (preemption); "
            "errors "
            "around that are its warning signal",
        )
    ]


def cancelled(facts: Facts) -> list[Cause]:
    """A person ended the job."""
    attempt = facts.attempt
    by = attempt.cancelled_by if attempt else None
    typed = facts.of("srun_interrupted", "ctld_kill")
    lines = facts.of("slurm_cancelled")
    failed = facts.of(
        "task_exit", "first_exit", "task_signal", "task_oom", "launch_failed"
    )
    job_line = [e for e in lines if e.fields.get("what") == "JOB"]
    own = [e for e in lines if not any(f.order < e.order for f in failed)]
    if (
        by is None
        and not typed
        and not (job_line or (facts.state == "CANCELLED" and (own or not failed)))
    ):
        return []
    who = f"user id {by}" if by is not None else "somebody"
    return [
        Cause(
            "USER_CANCEL",
            END,
            typed + (job_line or lines),
            confidence=Confidence.PROVEN
            if by is not None or typed
            else Confidence.LIKELY,
            what=f"{who} cancelled the job (scancel or Ctrl-C)",
        )
    ]


def wait_time(facts: Facts) -> list[Cause]:
    """Srun killed the step because one task had ended earlier than the others."""
    events = facts.of("first_exit")
    if not events:
        return []
    gone = [e for e in facts.of("task_state") if e.fields.get("state") == "exited"]
    early = facts.of("early_end")
    ranks = sorted(
        {rank for e in gone for rank in e.ranks}
        | {e.rank for e in early if e.rank is not None}
    )
    rank = ranks[0] if len(ranks) == 1 else None
    return [
        Cause(
            "WAITTIME_KILL",
            END,
            events + gone + early,
            facts.node_of(rank),
            rank,
            confidence=Confidence.PROVEN,
            what="srun ended the step because "
            + (f"rank {rank}" if rank is not None else "a task")
            + f" had finished {events[0].fields.get('after', '?')} s before the others "
            "(First task exited; WaitTime in slurm.conf, srun --wait=0 waits for ever)",
        )
    ]


def prolog(facts: Facts) -> list[Cause]:
    """The prolog failed: the job never ran there."""
    events = facts.of("prolog_failed")
    drained = [
        n
        for n in facts.trace.nodes.values()
        if re.search(r"(?i)prolog", n.reason)
        and (not facts.nodes or n.name in facts.nodes)
    ]
    if not events and not drained:
        return []
    node = next((n for e in events if (n := e.node or e.fields.get("node2"))), None)
    node = node or (drained[0].name if drained else None)
    held = re.search(r"(?i)held", facts.trace.job.reason) is not None
    what = f"the prolog failed on {node or 'a node'}; the program never ran"
    if held:
        what += f". The job is held: scontrol release {facts.trace.job.job_id}"
    return [
        Cause(
            "PROLOG_FAIL",
            MACHINE,
            events,
            node,
            confidence=Confidence.PROVEN,
            what=what,
        )
    ]


def launch(facts: Facts) -> list[Cause]:
    """Slurmd could not start tasks."""
    made = simple(
        facts,
        ("credential",),
        "CRED_EXPIRED",
        MACHINE,
        "the job's credential was refused as expired: the node's clock is off",
    )
    for cause in made:
        cause.events += facts.of("launch_failed")
        cause.node = next((e.node for e in cause.events if e.node), None)
        offset = facts.trace.layout.offset_s.get(cause.node or "")
        if offset:
            cause.what += f" (by {offset:+.0f} s)"
    if made:
        return made
    events = facts.of("launch_failed", "step_refused")
    if not events:
        return _held(facts)
    first = next((e for e in events if e.node), events[0])
    why = next((v for k, v in first.fields.items() if k.startswith("why")), "")
    return [
        Cause(
            "LAUNCH_FAILED",
            MACHINE,
            events,
            first.node,
            confidence=Confidence.PROVEN,
            what="Slurm could not start the step"
            + (f" on {first.node}" if first.node else "")
            + (f": {why[:160]}" if why else ""),
        )
    ]


def _held(facts: Facts) -> list[Cause]:
    reason = facts.trace.job.reason
    if not re.search(r"(?i)launch failed|JobLaunchFailure", reason):
        return []
    return [
        Cause("LAUNCH_FAILED", END, [], what=f"Slurm says: {reason}; scontrol release")
    ]


def container(facts: Facts) -> list[Cause]:
    """The container did not start."""
    made = simple(
        facts,
        ("container_failed",),
        "CONTAINER_START",
        MACHINE,
        "the container did not start",
    )
    for cause in made:
        log = facts.of("container_log")
        cause.events += log[:3]
        exits = facts.of("task_exit")
        ranks = {rank for e in exits for rank in e.ranks}
        nodes = {e.node for e in exits if e.node} | {
            e.node for e in cause.events if e.node
        }
        cause.node = nodes.pop() if len(nodes) == 1 else None
        if cause.rank is None and len(ranks) == 1:
            cause.rank = ranks.pop()
        if log:
            cause.what += f": {log[-1].fields.get('why', '')[:200]}"
    return made


def unkillable(facts: Facts) -> list[Cause]:
    """Processes survived SIGKILL."""
    events = ended(facts, "KILL_TASK_FAILED")
    events += [e for e in facts.of("unkillable") if not is_stale(facts, e)]
    start = facts.attempt.start if facts.attempt else None
    drained = [
        n
        for n in facts.trace.nodes.values()
        if re.search(r"(?i)kill task failed", n.reason)
        and (not facts.nodes or n.name in facts.nodes)
        and not (start and n.reason_time and n.reason_time < start)
    ]
    if not events and not drained:
        return []
    node = next((n.name for n in drained), None) or next(
        (e.node for e in events if e.node), None
    )
    hung = facts.of("hung_task")
    what = f"processes on {node or 'a node'} survived SIGKILL (Kill task failed)"
    if hung:
        what += f"; {hung[-1].text[:160]}"
    return [
        Cause(
            "KILL_TASK_FAILED",
            END,
            events + hung[:2],
            node,
            confidence=Confidence.PROVEN,
            what=what,
        )
    ]


RULES = (
    node_failure,
    time_limit,
    preempted,
    cancelled,
    wait_time,
    prolog,
    launch,
    container,
    unkillable,
)
