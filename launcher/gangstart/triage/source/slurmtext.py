"""Slurm's answers as text: scontrol before 23.02, sacct before 23.11.

The times come as seconds (SLURM_TIME_FORMAT=%s), so no time zone is guessed. Names,
command lines and comments in such a text are the user's, and may hold anything: fields
of scontrol are taken from the line that Slurm puts them on, those of sacct by a
delimiter that nobody could know, and never the user id, which decides whose files are
read, out of scontrol's text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gangstart.triage.model import NodeState
from gangstart.triage.source import values
from gangstart.triage.source.record import GarbageError, Record, StepRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HEAD = re.compile(
    r"JobId=(\d{1,10}) (?:ArrayJobId=(\d{1,10}) (?:ArrayTaskId=(\S+) )?"
    r"(?:ArrayTaskThrottle=\d+ )?)?(?:HetJobId=(\d{1,10}) HetJobOffset=(\d{1,10}) )?"
    r"JobName=(.*)"
)
USER = re.compile(r"UserId=([^(\s]{1,64})\(\d{1,10}\) ")
WORD = re.compile(r"([A-Za-z][A-Za-z/:]*)=(\S*)")
#: First word of a line -> whether the rest of the line is its value.
LINES = {
    "JobState": False,
    "Requeue": False,
    "RunTime": False,
    "SubmitTime": False,
    "StartTime": False,
    "NodeList": True,
    "NumNodes": False,
    "TRES": True,
    "AllocTRES": True,
    "ReqTRES": True,
    "Command": True,
    "WorkDir": True,
    "StdErr": True,
    "StdOut": True,
}
NODE_HEAD = re.compile(r"NodeName=(\S+) ")
REASON = re.compile(r"(.*) \[(\S+)@(\d{1,12})\]")

#: What sacct is asked for. The user's own words come last.
SACCT_FIELDS = (
    "JobIDRaw",
    "JobID",
    "UID",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "NTasks",
    "NodeList",
    "AllocTRES",
    "MaxRSS",
    "Reason",
    "User",
    "JobName",
    "WorkDir",
    "SubmitLine",
)
RAW_ID = re.compile(r"(\d{1,10})(?:\.([A-Za-z0-9_+-]{1,40}))?")
SHOWN_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10})|\+(\d{1,10}))?(?:\..*)?")


def scontrol_jobs(told: str, uids: Mapping[int, int]) -> list[Record]:
    """Jobs of ``scontrol show job``; `uids` is what squeue says of their users."""
    return [scontrol_job(block, uids) for block in blocks(told, "JobId=")]


def blocks(told: str, start: str) -> Iterator[list[str]]:
    """Entries, each beginning with a line that starts so after an empty line."""
    entry: list[str] = []
    blank = True
    for line in told.splitlines():
        if blank and line.startswith(start):
            if entry:
                yield entry
            entry = []
        blank = not line.strip()
        entry.append(line)
    if entry and entry[0].startswith(start):
        yield entry
    elif any(line.strip() for line in entry):
        raise GarbageError(f"{entry[0][:60]!r} was printed where {start} was expected")


def scontrol_job(block: Sequence[str], uids: Mapping[int, int]) -> Record:
    """One job."""
    head = HEAD.match(block[0])
    if not head:
        raise GarbageError(f"{block[0][:60]!r} is no head of a job")
    found = fields(block[1:])
    state, flags, _ = values.state(found.get("JobState", ""))
    out = values.text(found.get("StdOut"))
    running = state != "PENDING"
    task = head[3] if head[3] and head[3].isdigit() else None
    return Record(
        number=int(head[1]),
        name=head[6],
        user=user_of(block),
        uid=uids.get(int(head[1])),
        array=optional(head[2]),
        task=optional(task),
        het=optional(head[4]),
        het_offset=optional(head[5]),
        state=state,
        flags=flags,
        reason=values.text(found.get("Reason")),
        exit=values.exit_text(found.get("ExitCode", ""), exact=True) or Record.exit,
        restarts=optional(found.get("Restarts")),
        submit=seconds(found.get("SubmitTime")),
        start=seconds(found.get("StartTime")) if running else None,
        end=seconds(found.get("EndTime")) if running else None,
        limit_s=duration(found.get("TimeLimit", "")),
        nodes=values.nodes(found.get("NodeList", "")),
        tasks=optional(found.get("NumTasks")),
        tres=values.tres(found.get("AllocTRES", found.get("TRES"))),
        work_dir=values.text(found.get("WorkDir")),
        stdout=out,
        stderr=values.text(found.get("StdErr")) or out,
        command=values.text(found.get("Command")),
    )


def fields(lines: Sequence[str]) -> dict[str, str]:
    """Fields of the lines that Slurm writes, of each the last one of its name."""
    found: dict[str, str] = {}
    for line in lines:
        first, _, rest = line.strip().partition("=")
        if first not in LINES or not line.startswith("   "):
            continue
        if LINES[first]:
            found[first] = rest
        else:
            found.update(WORD.findall(line))
    return found


def user_of(block: Sequence[str]) -> str:
    """Name of the user."""
    named = (USER.match(line.strip()) for line in block)
    return next((match[1] for match in named if match), "")


def optional(value: str | None) -> int | None:
    """A whole number, if there is one."""
    return int(value) if value is not None and value.isdecimal() else None


def seconds(value: str | None) -> float | None:
    """Seconds since 1970; None for Unknown, None and the like."""
    found = optional(value)
    return float(found) if found else None


DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,4}):(\d\d):(\d\d)")


def duration(value: str) -> float | None:
    """Seconds of ``1-02:03:04``; None for UNLIMITED."""
    match = DURATION.fullmatch(value)
    if not match:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def scontrol_nodes(told: str) -> list[NodeState]:
    """Nodes of ``scontrol show node``."""
    return [scontrol_node(block) for block in blocks(told, "NodeName=")]


def scontrol_node(block: Sequence[str]) -> NodeState:
    """One node."""
    head = NODE_HEAD.match(block[0])
    if not head:
        raise GarbageError(f"{block[0][:60]!r} is no head of a node")
    found: dict[str, str] = {}
    for line in block:
        if line.strip().startswith("Reason="):
            found["Reason"] = line.strip().partition("=")[2]
        else:
            found.update(WORD.findall(line))
    reason = REASON.fullmatch(found.get("Reason", ""))
    return NodeState(
        name=head[1],
        state=found.get("State", ""),
        reason=reason[1] if reason else values.text(found.get("Reason")),
        reason_time=float(reason[3]) if reason else None,
        gres=values.text(found.get("Gres")),
        boot_time=seconds(found.get("BootTime")),
    )


def sacct_jobs(told: str, delimiter: str) -> list[Record]:
    """Jobs of sacct with their steps, one entry for each run of a requeued one."""
    made: list[Record] = []
    for line in told.splitlines():
        parts = line.split(delimiter)
        if len(parts) != len(SACCT_FIELDS):
            raise GarbageError(f"a row of {len(parts)} fields, not {len(SACCT_FIELDS)}")
        row = dict(zip(SACCT_FIELDS, parts, strict=True))
        raw = RAW_ID.fullmatch(row["JobIDRaw"])
        if not raw:
            raise GarbageError(f"{row['JobIDRaw'][:40]!r} is no job")
        if raw[2] is None:
            made.append(sacct_job(int(raw[1]), row))
        elif made and made[-1].number == int(raw[1]):
            step = sacct_step(raw[2], row)
            made[-1] = replace(made[-1], steps=(*made[-1].steps, step))
        else:
            raise GarbageError(f"step {row['JobIDRaw'][:40]!r} without its job")
    return made


def sacct_job(number: int, row: Mapping[str, str]) -> Record:
    """One run of a job."""
    shown = SHOWN_ID.fullmatch(row["JobID"])
    state, flags, by = values.state(row["State"])
    task = optional(shown[2]) if shown else None
    offset = optional(shown[3]) if shown else None
    leader = int(shown[1]) if shown else number
    limit = optional(row["TimelimitRaw"])
    return Record(
        number=number,
        name=row["JobName"],
        user=row["User"],
        uid=optional(row["UID"]),
        array=leader if task is not None else None,
        task=task,
        het=leader if offset is not None else None,
        het_offset=offset,
        state=state,
        flags=flags,
        reason=values.text(row["Reason"]),
        cancelled_by=by,
        exit=values.exit_text(row["ExitCode"], exact=False) or Record.exit,
        derived=values.exit_text(row["DerivedExitCode"], exact=False),
        submit=seconds(row["Submit"]),
        start=seconds(row["Start"]),
        end=seconds(row["End"]),
        limit_s=values.minutes(limit),
        nodes=values.nodes(row["NodeList"]),
        tres=values.tres(row["AllocTRES"]),
        work_dir=row["WorkDir"],
        submit_line=row["SubmitLine"],
    )


def sacct_step(name: str, row: Mapping[str, str]) -> StepRecord:
    """One step."""
    state, _, by = values.state(row["State"])
    return StepRecord(
        name=name,
        program=row["JobName"],
        state=state,
        exit=values.exit_text(row["ExitCode"], exact=False),
        cancelled_by=by,
        nodes=values.nodes(row["NodeList"]),
        start=seconds(row["Start"]),
        end=seconds(row["End"]),
        tasks=optional(row["NTasks"]),
        max_rss_bytes=values.size(row["MaxRSS"]),
        submit_line=row["SubmitLine"],
    )
