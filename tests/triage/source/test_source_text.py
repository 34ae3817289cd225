"""Text of Slurm's commands, with words of users in it that look like Slurm's own."""

from __future__ import annotations

import contextlib

import pytest
from gangstart.errors import GangstartError
from gangstart.triage.source import slurmtext, values
from gangstart.triage.source.record import (
    Exit,
    GarbageError,
    Wanted,
    parse_wanted,
)
from hypothesis import given, settings
from hypothesis import strategies as st

JOB = """\
JobId=6 JobName={name}
   UserId=alice(5) GroupId=alice(60) MCS_label=N/A
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=139:0
   RunTime=00:00:00 TimeLimit=1-02:03:04 TimeMin=N/A
   SubmitTime=1796077664 EligibleTime=1796077664
   StartTime=1796077666 EndTime=1796077667 Deadline=N/A
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=2,node=2,billing=2
   Command=/users/alice/a b.sh
   WorkDir=/users/alice/my exp
   StdErr=/users/alice/my exp/x.err
   StdOut=/users/alice/my exp/JobState=COMPLETED
   Power=

"""


def job(name: str = "seg") -> str:
    return JOB.replace("{name}", name)


def test_a_job() -> None:
    (found,) = slurmtext.scontrol_jobs(job(), {6: 5})

    assert (found.number, found.name, found.user, found.uid) == (6, "seg", "alice", 5)
    assert (found.state, found.exit, found.restarts) == ("FAILED", Exit(139), 2)
    assert found.limit_s == ((24 + 2) * 60 + 3) * 60 + 4
    assert found.command == "/users/alice/a b.sh"
    assert found.stdout == "/users/alice/my exp/JobState=COMPLETED"
    assert found.tres == {"cpu": "2", "node": "2", "billing": "2"}


@pytest.mark.parametrize(
    "name",
    [
        "x JobState=COMPLETED ExitCode=0:0",
        "x UserId=root(0)",
        "x\n   UserId=root(0) GroupId=root(0) MCS_label=N/A",
        "x\n   JobState=COMPLETED Reason=None Dependency=(null)",
        "x\nJobId=9 JobName=other\n   UserId=root(0) GroupId=root(0)",
    ],
)
def test_a_name_that_looks_like_a_record_makes_nobody_root(name: str) -> None:
    found = slurmtext.scontrol_jobs(job(name), {6: 5})

    assert [one.number for one in found] == [6]
    assert found[0].uid == 5
    assert found[0].state == "FAILED"


def test_a_user_that_squeue_does_not_tell_is_unknown() -> None:
    (found,) = slurmtext.scontrol_jobs(job(), {})

    assert found.uid is None


def row(**changed: str) -> list[str]:
    told = dict.fromkeys(slurmtext.SACCT_FIELDS, "")
    told |= {"JobIDRaw": "6", "JobID": "6", "UID": "5", "State": "FAILED"}
    return list((told | changed).values())


def test_a_row_of_sacct_with_a_line_break_in_a_name_is_no_answer() -> None:
    mark = "0123456789abcdef"
    forged = "x\n" + "|".join(row(UID="0"))
    told = mark.join(row(JobName=forged))

    with pytest.raises(GarbageError, match="a row of"):
        slurmtext.sacct_jobs(told, mark)


def test_steps_belong_to_the_run_before_them() -> None:
    rows = [
        row(State="REQUEUED", Start="10"),
        row(JobIDRaw="6.batch", State="CANCELLED"),
        row(Start="20"),
        row(JobIDRaw="6.0", JobName="train", NTasks="8", MaxRSS="1234K"),
    ]
    first, second = slurmtext.sacct_jobs("\n".join("|".join(r) for r in rows), "|")

    assert [step.name for step in first.steps] == ["batch"]
    assert [(s.name, s.program, s.tasks) for s in second.steps] == [("0", "train", 8)]
    assert second.steps[0].max_rss_bytes == 1234 * 1024


def test_who_cancelled() -> None:
    (found,) = slurmtext.sacct_jobs("|".join(row(State="CANCELLED by 1000")), "|")

    assert (found.state, found.cancelled_by) == ("CANCELLED", 1000)


@settings(deadline=None)
@given(st.text())
def test_any_text_of_scontrol_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(GarbageError):
        slurmtext.scontrol_nodes(text)
    with contextlib.suppress(GarbageError):
        slurmtext.scontrol_jobs(text, {})


@settings(deadline=None)
@given(st.text())
def test_any_text_of_sacct_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(GarbageError):
        slurmtext.sacct_jobs(text, "|")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (35584, Exit(139)),
        (11, Exit(0, 11)),
        (0, Exit()),
        ({"return_code": {"set": True, "number": 3}}, Exit(3)),
        ({"return_code": None, "signal": {"signal_id": 11}}, Exit(0, 11)),
        ({"signal": {"id": {"set": True, "number": 9}}}, Exit(0, 9)),
        ("3:0", None),
        (None, None),
        (1 << 40, None),
    ],
)
def test_exit_codes_of_json(value: object, expected: Exit | None) -> None:
    assert values.exit_json(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        ({"set": True, "infinite": False, "number": 7}, 7),
        ({"set": False, "infinite": True, "number": 0}, None),
        (0xFFFFFFFE, None),
        (True, None),
        ("3", None),
        (float("nan"), None),
    ],
)
def test_numbers_of_json(value: object, expected: float | None) -> None:
    assert values.number(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7877", Wanted(7877)),
        ("7877_3", Wanted(7877, task=3)),
        ("7877+1", Wanted(7877, offset=1)),
        ("7877.0", Wanted(7877)),
        ("7877_3.batch", Wanted(7877, task=3)),
    ],
)
def test_jobs_as_users_name_them(text: str, expected: Wanted) -> None:
    assert parse_wanted(text) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "-j 3", "7877_", "1;reboot", "7_1+2", "1" * 11]
)
def test_what_is_no_job_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(GangstartError, match="is not a job: a number such as 7877"):
        parse_wanted(text)
