"""Put every event where it belongs: its rank, its node, its attempt, one clock."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from gangstart.triage.cause import Facts, sequence
from gangstart.triage.rule.program import is_derived

if TYPE_CHECKING:
    from gangstart.triage.gather import Log
    from gangstart.triage.model import Attempt, Event, Layout, Trace

#: A run's lines may carry times slightly before its recorded start.
EARLY_S = 5.0
#: Lines that are about a node even where only one rank runs.
KERNEL = {"node_failure", "node_not_responding", "slurm_end", "slurm_cancelled"}
#: What ends an interpreter that does not catch it, with exit code 1 (Python's own).
RAISED = {"exception", "module_missing", "cuda_error", "cuda_oom", "device_assert"}
RAISED_EXIT = "1"


def attribute(trace: Trace, logs: list[Log]) -> Facts:
    """Facts of the job's final run out of a trace and the logs that were read.

    ``trace.events`` receives all events of all runs, aligned and in order.
    """
    events = [event for log in logs for event in log.events] + trace.events
    torchrun = any(event.kind.startswith("elastic") for event in events)
    masked = _masked(events)
    for event in events:
        _rank(event, trace.layout, torchrun=torchrun, masked=masked)
    _learn(trace.layout, events, torchrun=torchrun)
    _raiser(events)
    for event in events:
        _node(event, trace)
        _align(event, trace.layout)
    attempts = trace.job.attempts
    _attempts(events, attempts)
    trace.events = sorted(events, key=sequence) if _comparable(logs) else events
    newest = max((event.attempt for event in events), default=0)
    newest = max(newest, attempts[-1].restart if attempts else 0)
    final = [e for e in trace.events if e.attempt == newest]
    earlier = [e for e in trace.events if e.attempt != newest]
    progress = [p for log in logs for p in log.progress]
    facts = Facts(trace, final, earlier, attempts[-1] if attempts else None, progress)
    for log in logs:
        for rank, event in log.last_lines.items():
            _align(event, trace.layout)
            facts.last_lines[rank] = event
    return facts


def _learn(layout: Layout, events: list[Event], *, torchrun: bool) -> None:
    """Without a start report: srun's lines about single tasks say where ranks ran.

    Other lines do not: they may be about a node and written by a rank elsewhere.
    """
    told = {"task_exit", "task_signal", "task_oom", "mpirun_signal", "elastic_root"}
    if layout.rank_node:
        return
    learnt: dict[int, str] = {}
    for event in events:
        if event.kind in told and event.node and not (torchrun and event.ranks):
            ranks = event.ranks or (() if event.rank is None else (event.rank,))
            learnt |= dict.fromkeys(ranks, event.node)
    layout.learnt = learnt


def _raiser(events: list[Event]) -> None:
    """Whose an exception without a label is: that of the only task that exited with 1.

    Only where nothing else was raised but what passes on another rank's end: of
    several nobody can say which is whose.
    """
    raised = [e for e in events if e.kind in RAISED and not is_derived(e)]
    exits = [
        event
        for event in events
        if event.kind == "task_exit" and event.fields.get("exit") == RAISED_EXIT
    ]
    if len(raised) != 1 or len(exits) != 1 or len(exits[0].ranks) > 1:
        return
    (event,), (ended,) = raised, exits
    if event.rank is None and event.node is None and not event.ranks:
        event.rank, event.node = ended.rank, ended.node


def _comparable(logs: list[Log]) -> bool:
    """Whether times, not places, give the order: several logs are read."""
    return sum(bool(log.events) for log in logs) > 1


def _masked(events: list[Event]) -> set[str | None]:
    """Nodes where every NCCL process calls its GPU 0: there [0] names nobody."""
    seen: dict[str | None, set[str]] = defaultdict(set)
    for event in events:
        if "gpu" in event.fields:
            seen[event.node].add(event.fields["gpu"])
    return {node for node, gpus in seen.items() if gpus == {"0"}}


def _rank(
    event: Event, layout: Layout, *, torchrun: bool, masked: set[str | None]
) -> None:
    """The rank from a label, a local rank, a process id or an NCCL device."""
    if event.rank is not None or event.ranks:
        if event.rank is None and len(event.ranks) == 1 and not torchrun:
            event.rank = event.ranks[0]
        return
    if len(layout.rank_node) == 1 and event.kind not in KERNEL:
        event.rank = next(iter(layout.rank_node))
        return
    label = event.number("label")
    if label is not None and not torchrun:
        event.rank = label
        return
    node = event.node
    if node is None and torchrun and label is not None:
        nodes = list(dict.fromkeys(layout.rank_node.values()))
        node = event.node = nodes[label] if label < len(nodes) else None
    _local(event, layout, node, masked)


def _local(
    event: Event, layout: Layout, node: str | None, masked: set[str | None]
) -> None:
    names = set(layout.rank_node.values())
    if node is None and len(names) == 1:
        node = next(iter(names))
    here = sorted(rank for rank, where in layout.rank_node.items() if where == node)
    pids = layout.pids.get(node or "", ())
    pid = event.number("pid")
    local = event.number("local_rank") or event.number("local")
    if pid is not None and pid in pids:
        local = pids.index(pid)
    elif local is None and "gpu" in event.fields and event.node not in masked:
        local = event.number("gpu") if event.kind != "cuda_oom" else None
    if local is not None and local < len(here):
        event.rank = here[local]


def _node(event: Event, trace: Trace) -> None:
    if event.node is not None:
        event.node = trace.layout.address_node.get(event.node, event.node)
        return
    if event.rank is not None:
        event.node = trace.layout.node_of(event.rank)
    if event.node is None and len(set(trace.layout.rank_node.values())) == 1:
        event.node = next(iter(trace.layout.rank_node.values()))
    if event.node is None and len(trace.job.nodes) == 1:
        event.node = trace.job.nodes[0]


def _align(event: Event, layout: Layout) -> None:
    """By srun's clock: what the node's clock is ahead is taken off."""
    offset = layout.offset_s.get(event.node or "")
    if event.time is not None and offset and event.dated:
        event.time -= offset


def _attempts(events: list[Event], attempts: tuple[Attempt, ...]) -> None:
    """Which run an event belongs to: by a mark in the log, or by its time."""
    if len(attempts) <= 1:
        return
    for event in events:
        if event.attempt or event.time is None:
            continue
        for attempt in attempts:
            if attempt.start is not None and event.time >= attempt.start - EARLY_S:
                event.attempt = attempt.restart
