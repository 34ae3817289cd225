"""Slurm's answers as JSON: scontrol from 23.02 on, sacct from 23.11 on.

The forms differ by release: a number is plain or {set, infinite, number}, a state one
word or a list, a signal's number is called id or signal_id. The readers take all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gangstart.triage.model import NodeState
from gangstart.triage.source import values
from gangstart.triage.source.record import GarbageError, Record, StepRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

SAID = 160
REQUEUED = "REQUEUED"


def parse(raw: bytes) -> Mapping[str, Any]:
    """Read an answer; GarbageError if it is none, or holds only errors."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise GarbageError(f"it is not JSON: {str(error)[:SAID]}") from error
    if not isinstance(told, dict):
        raise GarbageError("it is not a JSON object")
    return told


def release(told: Mapping[str, Any]) -> str:
    """Which Slurm answered, such as 25.11.8; "" if it does not say."""
    meta = values.mapping(told.get("meta"))
    slurm = values.mapping(meta.get("slurm", meta.get("Slurm")))
    return values.text(slurm.get("release"))


def controller_jobs(told: Mapping[str, Any]) -> list[Record]:
    """Jobs of ``scontrol show job --json``."""
    return [controller_job(job) for job in values.objects(told.get("jobs"))]


def controller_job(job: Mapping[str, Any]) -> Record:
    """One job."""
    number = values.integer(job.get("job_id"))
    if number is None:
        raise GarbageError("a job without a number")
    state, flags, by = values.state(job.get("job_state"))
    array, het = values.integer(job.get("array_job_id")), het_of(job)
    pending = state == "PENDING"
    out, err = stdio(job)
    return Record(
        number=number,
        name=values.text(job.get("name")),
        user=values.text(job.get("user_name")),
        uid=values.integer(job.get("user_id")),
        array=array or None,
        task=values.integer(job.get("array_task_id")) if array else None,
        het=het[0],
        het_offset=het[1],
        state=state,
        flags=flags,
        reason=values.text(job.get("state_reason")),
        cancelled_by=by,
        exit=values.exit_json(job.get("exit_code")) or Record.exit,
        derived=values.exit_json(job.get("derived_exit_code")),
        restarts=values.integer(job.get("restart_cnt")),
        submit=values.moment(job.get("submit_time")),
        start=None if pending else values.moment(job.get("start_time")),
        end=None if pending else values.moment(job.get("end_time")),
        limit_s=values.minutes(values.number(job.get("time_limit"))),
        nodes=values.nodes(values.text(job.get("nodes"))),
        tasks=values.integer(job.get("tasks")),
        tres=values.tres(job.get("tres_alloc_str")),
        work_dir=values.text(job.get("current_working_directory")),
        stdout=out,
        stderr=err,
        command=values.text(job.get("command")),
        submit_line=values.text(job.get("submit_line")),
    )


def het_of(job: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Leader and offset of a component; the leader of a plain job is 0."""
    leader = values.integer(job.get("het_job_id"))
    return (
        (leader, values.integer(job.get("het_job_offset"))) if leader else (None,) * 2
    )


def stdio(job: Mapping[str, Any]) -> tuple[str, str]:
    """Output and error file, with their patterns where this release keeps them.

    sacct of 26.05 makes %u "(null)" where it expands them itself.
    """
    out, err = (
        values.text(job.get(long))
        or values.text(job.get(short))
        or values.text(job.get(f"{short}_expanded"))
        for short, long in (("stdout", "standard_output"), ("stderr", "standard_error"))
    )
    return out, err or out


def nodes(told: Mapping[str, Any]) -> list[NodeState]:
    """Nodes of ``scontrol show node --json``."""
    return [node(one) for one in values.objects(told.get("nodes"))]


def node(one: Mapping[str, Any]) -> NodeState:
    """One node."""
    name = values.text(one.get("name"))
    if not name:
        raise GarbageError("a node without a name")
    return NodeState(
        name=name,
        state="+".join(values.words(one.get("state"))),
        reason=values.text(one.get("reason")),
        reason_time=values.moment(one.get("reason_changed_at")),
        gres=values.text(one.get("gres")),
        boot_time=values.moment(one.get("boot_time")),
    )


def accounting_jobs(told: Mapping[str, Any]) -> list[Record]:
    """Jobs of ``sacct --json``."""
    return [accounting_job(job) for job in values.objects(told.get("jobs"))]


def accounting_job(job: Mapping[str, Any]) -> Record:
    """One run of a job."""
    number = values.integer(job.get("job_id"))
    if number is None:
        raise GarbageError("a job without a number")
    told = values.mapping(job.get("state"))
    current = values.words(told.get("current"))
    # 26.05 says PENDING and REQUEUED of a run that another one followed.
    requeued = [REQUEUED] if REQUEUED in current else list(current)
    state, flags, by = values.state(requeued)
    array, het = values.mapping(job.get("array")), values.mapping(job.get("het"))
    leader, times = values.integer(het.get("job_id")), values.mapping(job.get("time"))
    first = values.integer(array.get("job_id"))
    out, err = stdio(job)
    return Record(
        number=number,
        name=values.text(job.get("name")),
        user=values.text(job.get("user")),
        array=first or None,
        task=values.integer(array.get("task_id")) if first else None,
        het=leader or None,
        het_offset=values.integer(het.get("job_offset")) if leader else None,
        state=state,
        flags=flags,
        reason=values.text(told.get("reason")),
        cancelled_by=by,
        cancelled_name=values.text(job.get("kill_request_user")),
        exit=values.exit_json(job.get("exit_code")) or Record.exit,
        derived=values.exit_json(job.get("derived_exit_code")),
        restarts=values.integer(job.get("restart_cnt")),
        submit=values.moment(times.get("submission")),
        start=values.moment(times.get("start")),
        end=values.moment(times.get("end")),
        limit_s=values.minutes(values.number(times.get("limit"))),
        nodes=values.nodes(values.text(job.get("nodes"))),
        tres=tres_json(values.mapping(job.get("tres")).get("allocated")),
        work_dir=values.text(job.get("working_directory")),
        stdout=out,
        stderr=err,
        submit_line=values.text(job.get("submit_line")),
        steps=tuple(step(one) for one in values.objects(job.get("steps", []))),
    )


def tres_json(value: object) -> dict[str, str]:
    """What was allocated, by its name as in the text form."""
    found: dict[str, str] = {}
    for one in value if isinstance(value, list) else ():
        told = values.mapping(one)
        parts = (values.text(told.get("type")), values.text(told.get("name")))
        count = values.integer(told.get("count"))
        if count is not None and count >= 0:  # less is "no value", in 64 bits
            unit = "M" if parts[0] == "mem" else ""
            found["/".join(filter(None, parts))] = f"{count}{unit}"
    return found


def step(one: Mapping[str, Any]) -> StepRecord:
    """One step."""
    named, times = values.mapping(one.get("step")), values.mapping(one.get("time"))
    state, _, by = values.state(one.get("state"))
    ran_on = values.mapping(one.get("nodes"))
    identity = str(named.get("id", ""))
    out, err = stdio(named)
    return StepRecord(
        name=identity.rpartition(".")[2],
        program=values.text(named.get("name")),
        state=state,
        exit=values.exit_json(one.get("exit_code")),
        cancelled_by=by,
        nodes=values.nodes(values.text(ran_on.get("range"))),
        start=values.moment(times.get("start")),
        end=values.moment(times.get("end")),
        tasks=values.integer(values.mapping(one.get("tasks")).get("count")),
        stdout=out,
        stderr=err,
        submit_line=values.text(one.get("submit_line")),
    )
