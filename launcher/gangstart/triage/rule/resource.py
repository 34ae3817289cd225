"""What ran out or went away: memory, storage, descriptors, checkpoints."""

from __future__ import annotations

import re

from gangstart.triage.cause import MACHINE, PROGRAM, Cause, Facts
from gangstart.triage.model import Confidence, Event, Place
from gangstart.triage.rule.hardware import is_stale
from gangstart.triage.rule.signals import oom_kills
from gangstart.triage.series import told

#: Linux kills when less is left than its watermarks, a few parts in a hundred at most
#: (Documentation/admin-guide/sysctl/vm.rst, watermark_scale_factor).
SCARCE = 0.02
KILLED_EXIT = 137  # what a shell ends with whose command died of SIGKILL
GIB = 1 << 30
JOB_CGROUP = re.compile(r"job_(\d+)")
PATH = re.compile(r"['\"<](/[^'\">]+)['\">]|(?<![\w:/])(/[\w.@%+-]+(?:/[\w.@%+-]+)+)")


def path_of(event: Event) -> str | None:
    """The path that a line names last: errors come after what was tried."""
    found = PATH.findall(event.text)
    named = [one or other for one, other in found if not _library(one or other)]
    return named[-1] if named else None


def _library(path: str) -> bool:
    return "/site-packages/" in path or path.startswith(("/opt/venv", "/pytorch"))


def _ours(facts: Facts, event: Event) -> bool:
    """Whether a kernel's out-of-memory line is about this job."""
    named = JOB_CGROUP.findall(
        event.fields.get("cgroup", "") + " " + event.fields.get("memcg", "")
    )
    job = re.match(r"\d+", facts.trace.job.job_id)
    return not named or job is None or job[0] in named


def host_memory(facts: Facts) -> list[Cause]:
    """The kernel or Slurm ended a process for the memory it used."""
    kernel = [
        e
        for e in facts.of("oom_kill", "oom_killed")
        if _ours(facts, e) and not is_stale(facts, e)
    ]
    other = {e.fields.get("pid") for e in facts.of("oom_kill") if not _ours(facts, e)}
    kernel = [e for e in kernel if e.fields.get("pid") not in other]
    if facts.nodes:
        kernel = [e for e in kernel if e.node is None or e.node in facts.nodes]
    slurm = facts.of("task_oom", "oom_events", "memory_limit")
    worker = _killed_workers(facts)
    alloc = facts.of("host_alloc")
    events = kernel + slurm + worker + alloc
    said = facts.state == "OUT_OF_MEMORY"
    counted = _counted(facts)
    if not events and not said:
        return counted
    named = facts.of("task_oom") + worker + kernel
    if kernel and not any(e.rank is not None for e in named):
        named += _killed(facts, {e.node for e in kernel})
    node, rank = facts.where(named)
    first = named[0] if named else (events[0] if events else None)
    proven = bool(kernel or slurm or said)
    return [
        Cause(
            "HOST_OOM",
            MACHINE if proven else PROGRAM,
            sorted(events, key=lambda e: e.kind == "oom_events"),
            node or (first.node if first else None),
            rank if rank is not None else (first.rank if first else None),
            confidence=Confidence.PROVEN if proven else Confidence.LIKELY,
            what="host memory ran out (the job's memory limit or the node's RAM), "
            "not GPU memory",
            notes=["raise --mem, or use fewer DataLoader workers (num_workers)"]
            + [e.text for cause in counted for e in cause.events[-1:]],
        )
    ]


def _counted(facts: Facts) -> list[Cause]:
    """No line tells of it, but a node's own counters do, where tasks were killed.

    The kernel's count is of the whole node: alone it may be another job's process.
    """
    nodes = {one.series.node: one for one in oom_kills(facts)}
    killed = _killed(facts, set(nodes))
    if not killed:
        return _exhausted(facts)
    node, rank = facts.where(killed)
    grown = nodes[killed[0].node or ""]
    return [
        Cause(
            "HOST_OOM",
            PROGRAM,
            [*killed, grown.event],
            node or killed[0].node,
            rank,
            what=f"host memory ran out: a task on {killed[0].node} was killed, and the "
            "node's kernel ended processes for want of memory",
        )
    ]


def _exhausted(facts: Facts) -> list[Cause]:
    """A task was killed where hardly any memory was left, and no count says more."""
    low = [
        (one, least)
        for one in told(facts, "mem_available_bytes")
        if not told(facts, "oom_kills", one.node)
        and (whole := told(facts, "mem_total_bytes", one.node))
        and (least := min(s.value for s in one.samples))
        <= SCARCE * whole[0].samples[-1].value
    ]
    killed = _killed(facts, {one.node for one, _ in low})
    if not killed:
        return []
    node, rank = facts.where(killed)
    series, least = next(pair for pair in low if pair[0].node == killed[0].node)
    text = f"{series.query or series.quantity} fell to {least / GIB:.1f} GiB"
    seen = Event("series", text, Place("prometheus"), node=series.node)
    return [
        Cause(
            "HOST_OOM",
            PROGRAM,
            [*killed, seen],
            node or killed[0].node,
            rank,
            confidence=Confidence.POSSIBLE,
            what=f"a task on {killed[0].node} was killed when hardly any host memory "
            "was left there",
        )
    ]


def _killed(facts: Facts, nodes: set[str | None]) -> list[Event]:
    """Tasks on these nodes that died of SIGKILL before srun ended the others."""
    end = min((e.order for e in facts.of("srun_ends")), default=None)
    return [
        e
        for e in facts.of("task_signal", "task_exit")
        if (e.fields.get("signal") == "Killed" or e.number("exit") == KILLED_EXIT)
        and e.node in nodes
        and (end is None or e.order < end)
    ]


def _killed_workers(facts: Facts) -> list[Event]:
    return [
        e
        for e in facts.of("dataloader_killed")
        if e.fields.get("signal", "").strip() == "Killed"
    ]


def shared_memory(facts: Facts) -> list[Cause]:
    """/dev/shm is full."""
    events = facts.of("nccl_shm", "shm_full")
    events += [
        e
        for e in facts.of("dataloader_killed")
        if e.fields.get("signal", "").strip() == "Bus error"
    ]
    events += [
        e
        for e in facts.of("disk_full", "quota")
        if (path_of(e) or "").startswith("/dev/shm")
    ]
    if not events:
        return []
    return [
        _storage(
            facts,
            sorted(events, key=lambda e: e.order),
            "SHM_FULL",
            "/dev/shm is full: remove leftovers or raise its size (shm-size of the "
            "container, tmpfs of the node)",
        )
    ]


def _storage(facts: Facts, events: list[Event], code: str, what: str) -> Cause:
    node, rank = facts.where(events)
    first = events[0]
    ranks = {e.rank for e in events}
    return Cause(
        code,
        PROGRAM,
        events,
        node or (first.node if len(ranks) == 1 else None),
        rank if rank is not None else first.rank,
        confidence=Confidence.PROVEN,
        what=what,
    )


def disk(facts: Facts) -> list[Cause]:
    """A file system or a quota is full."""
    made = []
    quota = _fatal(facts, "quota")
    full = [
        e
        for e in _fatal(facts, "disk_full")
        if not (path_of(e) or "").startswith("/dev/shm")
    ]
    if quota:
        full = [e for e in full if "file write failed" not in e.text]
        what = f"the quota is used up{_on(quota)}"
        made.append(_storage(facts, quota, "DISK_QUOTA", what))
    if full:
        sure = [e for e in full if "file write failed" not in e.text]
        what = f"no space is left{_on(sure or full)}"
        cause = _storage(facts, full, "DISK_FULL", what)
        cause.confidence = Confidence.PROVEN if sure else Confidence.POSSIBLE
        if any("riter" in e.text or "save" in e.fields.get("func", "") for e in full):
            cause.notes.append("the checkpoint written last is probably truncated")
        made.append(cause)
    return made


def _fatal(facts: Facts, kind: str) -> list[Event]:
    return [e for e in facts.of(kind) if not facts.survived(e)]


def _on(events: list[Event]) -> str:
    path = next((p for p in map(path_of, events) if p), None)
    return f" at {path}" if path else ""


def filesystem(facts: Facts) -> list[Cause]:
    """A mount is stale, lost or read-only."""
    program = _fatal(facts, "stale")
    kernel = [
        e
        for e in facts.of("fs_lost", "fs_readonly")
        if not is_stale(facts, e) and not _recovered(facts, e)
    ]
    if not program and not kernel:
        return []
    cause = _storage(
        facts,
        program + kernel,
        "FS_STALE",
        f"a file system is stale or was lost{_on(program or kernel)}",
    )
    if kernel:
        node, _ = facts.where(kernel)
        cause.node, cause.level = node or cause.node, MACHINE
    elif program:
        nodes = {e.node for e in program if e.node}
        cause.confidence = Confidence.LIKELY
        cause.node = nodes.pop() if len(nodes) == 1 else None
    return [cause]


def _recovered(facts: Facts, event: Event) -> bool:
    """Whether the server answered again and no program failed on it."""
    back = [e for e in facts.of("fs_back") if e.node == event.node]
    return any(e.order > event.order for e in back) and not facts.of("stale")


def descriptors(facts: Facts) -> list[Cause]:
    """The limit of open files."""
    events = facts.of("fd_limit", "nccl_fds")
    if not events:
        return []
    return [
        _storage(
            facts,
            events,
            "FD_LIMIT",
            "the limit of open files is reached: raise ulimit -n (LimitNOFILE of "
            "slurmd), or share tensors by file_system",
        )
    ]


def checkpoint(facts: Facts) -> list[Cause]:
    """The checkpoint to resume from cannot be read."""
    events = _fatal(facts, "checkpoint_corrupt")
    if not events:
        return []
    path = next((p for p in map(path_of, events) if p), None)
    told = [e for e in facts.of("checkpoint_begin") if e.order < events[0].order]
    used = [
        e for e in told if re.match(r"(?i)resum|load|restor", e.fields.get("what", ""))
    ]
    path = path or next((e.fields.get("path") for e in reversed(used or told)), None)
    cause = _storage(
        facts,
        events + used[-1:],
        "CHECKPOINT_CORRUPT",
        f"the checkpoint {path or ''} is truncated or unreadable".replace("  ", " "),
    )
    ranks = {e.rank for e in events}
    if len(ranks) > 1:
        cause.rank = None
    return [cause]


RULES = (
    host_memory,
    shared_memory,
    disk,
    filesystem,
    descriptors,
    checkpoint,
)
