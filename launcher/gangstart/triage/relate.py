"""Which of several causes comes first: what explains what.

Levels first (a machine's record explains a program's error, which explains a wait),
then time, then place. Nothing that came after Slurm or a person ended the job is a
cause, and nobody is blamed for waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart.triage.cause import END, LINK, MACHINE, PROGRAM, SYMPTOM, Cause, Facts

if TYPE_CHECKING:
    from gangstart.triage.model import Event

#: Ends that Slurm or a person make. A failure before them that the program did not
#: survive is the cause, unless it came with their warning signal.
LIMITS = {"TIME_LIMIT", "PREEMPTED", "USER_CANCEL"}
#: Waits that failed: what a program raises after them is their consequence.
WAITS = {
    "NCCL_TIMEOUT",
    "NCCL_FIRST_COLLECTIVE",
    "COLLECTIVE_MISMATCH",
    "RENDEZVOUS_TIMEOUT",
    "RANK0_LATE",
    "NET_IB",
}
#: Code that always gives way to another of the same level that explains it.
GIVES_WAY = {
    "SEGFAULT": {"HOST_OOM", "SHM_FULL", "DISK_FULL", "GPU_FELL_OFF_BUS", "GPU_ECC"},
    "APP_EXCEPTION": {
        "SHM_FULL",
        "DISK_FULL",
        "DISK_QUOTA",
        "FS_STALE",
        "FD_LIMIT",
        "CUDA_OOM",
        "HOST_OOM",
        "CHECKPOINT_CORRUPT",
        "PORT_IN_USE",
        "BAD_MASTER_ADDR",
        "GPU_BINDING",
        "GPU_BUSY",
        "DUPLICATE_GPU",
        "APP_ILLEGAL_ACCESS",
    },
    "CONTAINER_START": {"DISK_FULL", "DISK_QUOTA", "FS_STALE"},
    "CHECKPOINT_CORRUPT": {"DISK_FULL", "DISK_QUOTA", "FS_STALE"},
    "GPU_BINDING": {"GPU_COUNT", "GPU_FELL_OFF_BUS"},
    "GPU_BUSY": {"GPU_LEFTOVER_MEMORY", "GPU_FELL_OFF_BUS", "GPU_HW", "GPU_ECC"},
    "NODE_SOFTWARE": {"FS_STALE", "GPU_FELL_OFF_BUS"},
    "NODE_FAIL": {"GPU_FELL_OFF_BUS"},
    "GPU_HW": {"GPU_FELL_OFF_BUS", "GPU_ECC", "GPU_NVLINK"},
    "GPU_ECC": {"GPU_FELL_OFF_BUS"},
    "GPU_NVLINK": {"GPU_FELL_OFF_BUS"},
    "PROLOG_FAIL": {
        "GPU_FELL_OFF_BUS",
        "GPU_ECC",
        "GPU_NVLINK",
        "GPU_HW",
        "GPU_COUNT",
        "GPU_LEFTOVER_MEMORY",
        "FABRIC_MANAGER",
    },
    "LAUNCH_FAILED": {"CRED_EXPIRED", "PROLOG_FAIL", "NODE_FAIL", "CONTAINER_START"},
    "NCCL_INTERNAL": {"NET_SOCKET", "NCCL_TIMEOUT", "NCCL_FIRST_COLLECTIVE"},
    "NET_SOCKET": {"NCCL_TIMEOUT", "NCCL_FIRST_COLLECTIVE", "BARRIER_TIMEOUT"},
    "RENDEZVOUS_TIMEOUT": {"NCCL_TIMEOUT", "NCCL_FIRST_COLLECTIVE", "NET_SOCKET"},
}


def root_of(facts: Facts, causes: list[Cause]) -> Cause | None:
    """The cause that explains the others; None when nothing is left."""
    real = [cause for cause in causes if not cause.noise]
    limit = _limit(real)
    begun = [c for c in real if c is not limit and not _after(c, limit)]
    inner = [c for c in begun if c.code not in LIMITS]
    best = min(inner, key=lambda c: _rank(c, inner), default=None)
    best = _deeper(inner, best)
    if best is not None and not _only_end(facts, best, limit):
        return best
    return limit or best


def _limit(causes: list[Cause]) -> Cause | None:
    """Which of Slurm's or a person's ends holds: the one with the firmest record."""
    order = ("PREEMPTED", "TIME_LIMIT", "USER_CANCEL")
    found = [c for code in order for c in causes if c.code == code]
    return found[0] if found else None


def _after(cause: Cause, limit: Cause | None) -> bool:
    """Whether a cause shows only after the job was already being ended."""
    if limit is None or cause.level == MACHINE:
        return False
    end = limit.first
    begin = cause.first
    if end is None or begin is None:
        return False
    known = [e for e in cause.events if not _later(e, end)]
    return not known


def _later(event: Event, end: Event) -> bool:
    if event.place.source == end.place.source:
        return event.order > end.order
    if event.time is None or end.time is None:
        return False
    return event.time >= end.time


def _only_end(facts: Facts, best: Cause, limit: Cause | None) -> bool:
    """Whether a limit stands although something else was seen before it."""
    if limit is None:
        return False
    if best.code == "KILL_TASK_FAILED":
        return not facts.of("completed")
    return (
        best.code in {"APP_EXIT", "WAITTIME_KILL"}
        and best.level >= END
        and (limit.code != "USER_CANCEL" or not facts.of("task_exit"))
    )


def _rank(cause: Cause, causes: list[Cause]) -> tuple[int, float, int]:
    """Sort key: the stratum, then when it began, then where it stands."""
    level = cause.level
    symptom = [c for c in causes if c.level in {SYMPTOM, LINK} and c is not cause]
    if level == PROGRAM and _caused_by_wait(cause, symptom):
        level = SYMPTOM + 1
    if level == LINK and _before_program(cause, causes):
        level = PROGRAM
    when = cause.time if cause.time is not None else float("-inf")
    return (level, when, cause.first.order if cause.first else 0)


def _before_program(cause: Cause, causes: list[Cause]) -> bool:
    """Whether a fault of the wire was reported before any program failed."""
    return any(
        other.level == PROGRAM and _earlier(cause.first, other.first)
        for other in causes
    )


def _caused_by_wait(cause: Cause, symptoms: list[Cause]) -> bool:
    """Whether a program's error came only after a wait had already failed.

    A broken connection does not count: its line is often flushed before the
    traceback of the rank that broke it. Resources never run out because of a wait. And
    a rank that did not wait itself is the one that was waited for, whatever the order
    in which logs were put together.
    """
    return cause.code in {"APP_EXCEPTION", "SEGFAULT"} and any(
        symptom.code in WAITS
        and _earlier(symptom.first, cause.first)
        and not _was_awaited(cause, symptom)
        for symptom in symptoms
    )


def _was_awaited(cause: Cause, symptom: Cause) -> bool:
    """Whether others timed out in a collective that this rank never waited in."""
    waited = {e.rank for e in symptom.events if e.kind == "nccl_watchdog"}
    return bool(waited) and cause.rank is not None and cause.rank not in waited


def _earlier(one: Event | None, other: Event | None) -> bool:
    """Whether one was reported before the other, by time and else by place."""
    if one is None or other is None:
        return False
    if one.place.source == other.place.source and not (one.dated and other.dated):
        return one.order < other.order
    if one.time is None or other.time is None:
        return False
    return one.time < other.time


def _deeper(causes: list[Cause], best: Cause | None) -> Cause | None:
    """Follow what always explains the best one."""
    seen: set[str] = set()
    while best is not None and best.code not in seen:
        seen.add(best.code)
        deeper = [c for c in causes if c.code in GIVES_WAY.get(best.code, set())]
        if not deeper:
            break
        best = deeper[0]
    return best
