"""One job out of what slurmctld and slurmdbd have on record. Pure.

slurmdbd knows every run and step, and who cancelled; slurmctld the files, the restarts,
the exact exit code and the state at this moment. Either may know nothing of a job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gangstart.triage.model import Attempt, Job, Step
from gangstart.triage.source.record import BY_SIGNAL, Exit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangstart.triage.source.record import Record, StepRecord, Wanted

#: States of a run that has not ended.
LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"})
FINE = frozenset({"COMPLETED"})
#: slurmdbd's state of a run that was followed by another.
REQUEUED = "REQUEUED"


def merge(controller: Sequence[Record], accounting: Sequence[Record]) -> list[Record]:
    """Every run of every part, oldest first; each said once."""
    made: list[Record] = []
    for number in dict.fromkeys(one.number for one in (*accounting, *controller)):
        runs = sorted(
            (one for one in accounting if one.number == number), key=submitted
        )
        now = next((one for one in controller if one.number == number), None)
        made += with_now(runs, now)
    return [began(one) for one in made]


def began(record: Record) -> Record:
    """The run without a start if it never began: slurmctld tells when it ended."""
    never = not record.nodes and record.state not in LIVE
    return replace(record, start=None) if never else record


def submitted(record: Record) -> tuple[float, float]:
    """What orders the runs of a job: a requeue counts as submitted again."""
    return record.submit or 0.0, record.start or float("inf")


def with_now(runs: list[Record], now: Record | None) -> list[Record]:
    """Runs of the accounting, with what slurmctld knows of the last one."""
    if now is None:
        return runs
    if not runs or not same_run(runs[-1], now):
        return [*runs, now]
    return [*runs[:-1], both(now, runs[-1])]


def same_run(old: Record, now: Record) -> bool:
    """Whether both speak of one run.

    A job that waits again after a requeue has no start, its last run has one.
    """
    if old.state == REQUEUED:
        return False
    if old.start is None or now.start is None:
        return old.start == now.start or (old.submit or 0) == (now.submit or 0)
    return abs(old.start - now.start) <= 1.0


def both(now: Record, kept: Record) -> Record:
    """One run as slurmctld and slurmdbd have it."""
    return replace(
        now,
        uid=kept.uid if now.uid is None else now.uid,
        user=now.user or kept.user,
        cancelled_by=now.cancelled_by
        if kept.cancelled_by is None
        else kept.cancelled_by,
        cancelled_name=kept.cancelled_name,
        derived=now.derived or kept.derived,
        tasks=now.tasks or kept.tasks,
        tres=now.tres or kept.tres,
        nodes=now.nodes or kept.nodes,
        work_dir=now.work_dir or kept.work_dir,
        # slurmdbd keeps the patterns; scontrol of 24.11 fills %05j in wrongly.
        stdout=kept.stdout or now.stdout,
        stderr=kept.stderr or now.stderr,
        submit_line=now.submit_line or kept.submit_line,
        reason=now.reason or kept.reason,
        steps=kept.steps,
    )


def settle(left: Exit, derived: Exit | None) -> Exit:
    """Decide on an inexact code where the steps tell: 11 after signal 11 is 139."""
    if left.exact or derived is None or derived.signal != left.code:
        return left
    return Exit(left.code + BY_SIGNAL, left.signal)


def chosen(records: Sequence[Record], wanted: Wanted) -> tuple[list[Record], str]:
    """The part that is looked at, and a remark if there are others.

    Of an array without a task number it is the task that failed first.
    """
    parts: dict[int | None, list[Record]] = {}
    for one in records:
        parts.setdefault(one.task if one.array is not None else None, []).append(one)
    if wanted.task is not None or len(parts) < 2:  # noqa: PLR2004  more than one
        return list(records), ""
    first = min(parts.values(), key=failed_first)
    failed = sum(1 for runs in parts.values() if bad(runs[-1]))
    return first, (
        f"{wanted.number} is an array: {failed} of {len(parts)} tasks failed; this is "
        f"{first[-1].shown}, name another one to look at it"
    )


def bad(record: Record) -> bool:
    """Whether a run ended otherwise than well."""
    return record.state not in FINE | LIVE


def failed_first(runs: Sequence[Record]) -> tuple[bool, float, int]:
    """What orders tasks: failed ones first, by their end."""
    last = runs[-1]
    return not bad(last), last.end or float("inf"), last.task or 0


def job_of(records: Sequence[Record], wanted: Wanted) -> Job:
    """The job as rules take it; records are those of `chosen`, at least one."""
    parts: dict[int, list[Record]] = {}
    for one in records:
        parts.setdefault(one.number, []).append(one)
    leader = min(parts.values(), key=lambda runs: runs[0].het_offset or 0)
    last = decisive([runs[-1] for runs in parts.values()])
    known = next((one for one in reversed(leader) if one.stdout), leader[-1])
    restarts = [one.restarts for one in records if one.restarts is not None]
    attempts = len(leader)
    return Job(
        job_id=str(wanted) if leader[-1].array is None else leader[-1].shown,
        name=last.name,
        user=last.user,
        state=last.state,
        reason=last.reason,
        restarts=max([attempts - 1, *restarts]),
        nodes=union(runs[-1].nodes for runs in parts.values()),
        submit=leader[0].submit,
        time_limit_s=last.limit_s,
        stdout=known.stdout,
        stderr=known.stderr,
        work_dir=last.work_dir,
        command=last.command or last.submit_line,
        attempts=tuple(
            attempt(
                [runs[index] for runs in parts.values() if index < len(runs)],
                index + max([0, *restarts, attempts - 1]) - (attempts - 1),
            )
            for index in range(attempts)
        ),
        purged=all(one.restarts is None and not one.command for one in records),
    )


def decisive(parts: Sequence[Record]) -> Record:
    """The component whose state is the job's: the first that ended badly."""
    ended = sorted(parts, key=lambda one: (one.end or float("inf"), one.number))
    return next((one for one in ended if bad(one)), parts[0])


def union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Names of several lists, each once, in order."""
    return tuple(dict.fromkeys(name for names in lists for name in names))


def attempt(parts: Sequence[Record], restart: int) -> Attempt:
    """One run of the job, of all its components."""
    last = decisive(parts)
    left = settle(last.exit, last.derived)
    spent = (
        None if None in (last.start, last.end) else (last.end or 0) - (last.start or 0)
    )
    return Attempt(
        restart=restart,
        state=last.state,
        exit_code=left.code,
        signal=left.signal,
        derived_exit_code=last.derived.code if last.derived else None,
        derived_signal=last.derived.signal if last.derived else None,
        cancelled_by=last.cancelled_by,
        nodes=union(one.nodes for one in parts),
        start=last.start,
        end=last.end,
        elapsed_s=spent,
        reason=last.reason,
        steps=steps(parts),
    )


def steps(parts: Sequence[Record]) -> tuple[Step, ...]:
    """Steps of all components; a step that spans several is one."""
    found: dict[str, list[StepRecord]] = {}
    for one in parts:
        for step in one.steps:
            found.setdefault(step.name, []).append(step)
    return tuple(one_step(name, same) for name, same in found.items())


def one_step(name: str, same: Sequence[StepRecord]) -> Step:
    """One step, from its entries in each component."""
    worst = next((one for one in same if one.state not in FINE | LIVE), same[0])
    left = worst.exit or Exit()
    counts = [one.tasks for one in same if one.tasks is not None]
    sizes = [one.max_rss_bytes for one in same if one.max_rss_bytes is not None]
    return Step(
        name=name,
        state=worst.state,
        exit_code=left.code,
        signal=left.signal,
        nodes=union(one.nodes for one in same),
        start=min((one.start for one in same if one.start), default=None),
        end=max((one.end for one in same if one.end), default=None),
        tasks=sum(counts) if counts else None,
        max_rss_bytes=max(sizes, default=None),
        program=worst.program,
    )
