"""What was not seen, what would settle a case, and series that prove nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart.triage.cause import MET
from gangstart.triage.model import RuledOut
from gangstart.triage.rule.signals import not_killed

if TYPE_CHECKING:
    from gangstart.triage.cause import Cause, Facts
    from gangstart.triage.model import Verdict


KILLED = 137  # 128 + SIGKILL, as shells count


def missing(facts: Facts) -> list[str]:
    """What to bring so that the next look can decide."""
    trace = facts.trace
    made = []
    read = {source.name for source in trace.sources if source.outcome.value == "used"}
    if "logs" not in read:
        made.append("no log was read: give it with --log PATH (StdOut and StdErr)")
    if not any(e.place.source.startswith("dmesg:") for e in facts.events):
        made.append(
            "the kernel logs of the nodes: --kmsg NODE=FILE (out of memory, Xid, links)"
        )
    if not trace.layout.rank_node:
        made.append("a start report (srun --gang-start): which rank ran where")
    if not trace.series:
        made.append("Prometheus: GPU clocks, power, memory around the end")
    if facts.attempt is None:
        made.append("Slurm's accounting (sacct): state and exit codes of the steps")
    codes = [event.number("exit") for event in facts.of("task_exit")]
    codes += [facts.attempt.exit_code] if facts.attempt else []
    if KILLED in codes:
        made.append(
            f"who sent SIGKILL: exit code {KILLED} is what a shell makes of it, and "
            "that is all that is known; most often the kernel for want of memory"
        )
    if facts.of("task_signal"):
        made.append(
            "who sent the signal: slurmd's log of the node, dmesg, the shell history"
        )
    return made


def ruled_memory(facts: Facts, root: Cause) -> list[RuledOut]:
    """Killed tasks on nodes whose kernel ended nothing for want of memory."""
    killed = {
        e.node
        for e in facts.of("task_signal")
        if e.node and e.fields.get("signal") == "Killed"
    }
    nodes = [] if root.code == "HOST_OOM" else not_killed(facts, killed)
    if not nodes:
        return []
    why = f"{', '.join(nodes[:8])}: node_vmstat_oom_kill did not grow during the job"
    return [RuledOut("HOST_OOM", why)]


def ruled_checks(facts: Facts, verdict: Verdict) -> list[RuledOut]:
    """GPUs that a check found after the job as they were before it."""
    if not facts.of(*MET):
        return []
    same = {e.node for e in facts.of("check_same") if e.node}
    worse = {e.node for e in facts.of("check_change") if e.node}
    nodes = sorted(same - worse)
    if verdict.node not in {None, *nodes} or not nodes:
        return []
    why = f"{', '.join(nodes[:8])}: a check found the GPUs after the job as before it"
    return [RuledOut("GPU_HW", why)]


def ruled_series(facts: Facts) -> list[RuledOut]:
    """A last-value gauge that did not change during the job is no evidence."""
    start = facts.attempt.start if facts.attempt else None
    made = []
    for series in facts.trace.series:
        if series.quantity != "xid" or not series.samples:
            continue
        last = series.samples[-1]
        if not last.value:
            continue
        before = [s for s in series.samples if start is not None and s.time < start]
        if before and before[-1].value == last.value:
            why = (
                f"the exporter's last Xid of {series.node} GPU {series.device} is "
                f"{last.value:.0f} since before the job began: a stale gauge"
            )
            made.append(RuledOut("GPU_HW", why))
    return made
