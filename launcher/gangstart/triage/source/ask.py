"""Slurm about one job: both daemons, the nodes, earlier jobs. All within a deadline."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gangstart.triage.model import Job, NodeState, Outcome, PastJob, SourceState
from gangstart.triage.source import jobfiles, joined, peek

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.triage.source.jobfiles import JobFile
    from gangstart.triage.source.record import Record, Slurm, Wanted

PAST_S = 7 * 86400.0
SUPERUSER = "root"


@dataclass
class Told:
    """What Slurm has on a job; `job` is None if it knows of none."""

    job: Job | None = None
    records: list[Record] = field(default_factory=list)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    past: list[PastJob] = field(default_factory=list)
    states: list[SourceState] = field(default_factory=list)
    remark: str = ""


def slurm(by: Slurm, wanted: Wanted) -> Told:
    """Ask for a job; slurmctld and slurmdbd at the same time."""
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, wanted) for ask in (by.controller, by.accounting)]
        controller, accounting = (one.result() for one in asked)
    told = Told(states=[controller.state, accounting.state])
    every = [named(one) for one in joined.merge(controller.found, accounting.found)]
    if not every:
        return told
    told.records, told.remark = joined.chosen(every, wanted)
    told.job = joined.job_of(told.records, wanted)
    purged = controller.state.outcome is Outcome.EMPTY
    told.job = replace(told.job, purged=purged)
    with ThreadPoolExecutor(2) as pool:
        nodes = pool.submit(by.nodes, told.job.nodes)
        begun = told.job.submit or time.time()
        past = pool.submit(by.past, told.job.nodes, begun - PAST_S, time.time())
        told.nodes = {one.name: one for one in nodes.result().found}
        own = {one.shown for one in every}
        told.past = [one for one in past.result().found if one.job_id not in own]
        told.states += [nodes.result().state, past.result().state]
    return told


def named(record: Record) -> Record:
    """Numbers of users where only their names are told."""
    by = record.cancelled_by
    if by is None and record.cancelled_name:
        by = number_of(record.cancelled_name)
    uid = number_of(record.user) if record.uid is None else record.uid
    return replace(record, cancelled_by=by, uid=uid)


def number_of(user: str) -> int | None:
    """A user's number; None if this machine does not know the name."""
    import pwd  # noqa: PLC0415  not on every system

    if user == SUPERUSER:
        return 0
    try:
        return pwd.getpwnam(user).pw_uid if user else None
    except KeyError:
        return None


def files(told: Told, by: Slurm) -> tuple[list[JobFile], SourceState]:
    """Files that the job's newest run wrote, as far as its records and script tell."""
    if not told.records:
        state = SourceState("job files", Outcome.ABSENT, "Slurm named none")
        return [], state
    newest = last_runs(told.records)
    own = os.geteuid()
    allowed = peek.refusal(newest[0].uid, newest[0].user, own) is None
    text = by.script(newest[0].number) if allowed else ""
    return jobfiles.look(newest[0], jobfiles.wishes(newest, text), own)


def last_runs(records: Sequence[Record]) -> list[Record]:
    """The newest run of each part of a job, its leader first."""
    found = {one.number: one for one in records}
    return sorted(found.values(), key=lambda one: one.het_offset or 0)
