"""What a job left on a node: only what is proven, and nothing of anybody else."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from gangstart.check.leftover import (
    Job,
    Node,
    Process,
    Shm,
    after_job,
    before_job,
    job_of,
)

#: Whatever fits the field of that name.
Known: TypeAlias = Any
SHM = "/dev/" + "shm/"
OURS = "/system.slice/slurmstepd.scope/job_501/step_0/user/task_0"
THEIRS = "/system.slice/slurmstepd.scope/job_502/step_0"
ENDED = Job(501)


def process(pid: int = 1, uid: int = 1001, **known: Known) -> Process:
    known.setdefault("cgroup", "/system.slice")
    known.setdefault("env", {})
    return Process(pid, uid, **known)


def node(*processes: Process, running: Known = (), shm: Known = ()) -> Node:
    known = None if running is None else dict.fromkeys(running)
    return Node(processes, known, shm)


@pytest.mark.parametrize(
    ("cgroup", "env", "job"),
    [
        (OURS, {}, 501),
        (THEIRS, {"SLURM_JOB_ID": "501"}, 502),
        ("/slurm/uid_1001/job_501/step_batch", None, 501),
        ("4:memory:/slurm_n1/uid_1/job_501\n3:cpu:/", None, 501),
        ("/system.slice", {"SLURM_JOBID": "501"}, 501),
        ("/system.slice", {"SLURM_JOB_ID": "x501"}, None),
        ("/docker/job_501/x", {}, None),
        ("/system.slice/slurmstepd.scope/job_501x/step_0", {}, None),
        ("/system.slice", None, None),
    ],
)
def test_a_process_is_of_the_job_of_its_cgroup_then_of_its_environment(
    cgroup: str, env: Known, job: int | None
) -> None:
    assert job_of(process(cgroup=cgroup, env=env)) == job


def test_each_orphan_says_how_it_is_known() -> None:
    ended = Job(501, uid=1001, started=10.0, ended=20.0)
    left = after_job(
        ended,
        node(
            process(1, cgroup=OURS),
            process(2, env={"SLURM_JOB_ID": "501"}),
            process(3, started=15.0),
        ),
    )
    assert [o.proof for o in left.orphans] == ["cgroup", "environment", "user and time"]


@pytest.mark.parametrize("started", [9.0, 21.0, None])
def test_another_time_is_another_job(started: float | None) -> None:
    ended = Job(501, uid=1001, started=10.0, ended=20.0)
    assert after_job(ended, node(process(started=started))).pids == []


def test_an_environment_that_cannot_be_read_proves_nothing() -> None:
    ended = Job(501, uid=1001, started=10.0, ended=20.0)
    assert after_job(ended, node(process(env=None, started=15.0))).pids == []


def test_another_users_environment_is_no_proof() -> None:
    liar = process(uid=1002, env={"SLURM_JOB_ID": "501"})
    assert after_job(Job(501, uid=1001), node(liar)).pids == []


def test_unknown_running_jobs_are_said_and_nothing_else_is() -> None:
    left = after_job(ENDED, node(process(env={"SLURM_JOB_ID": "501"}), running=None))
    assert (left.pids, list(left.codes)) == ([], ["JOBS_UNKNOWN"])
    assert "could not be read" in left.message()


def test_before_a_start_an_unreadable_process_of_a_user_with_a_job_is_innocent() -> (
    None
):
    hidden = process(env=None, devices=["/dev/nvidia0"])
    assert before_job(Job(700), node(hidden, running=[502])).pids == []
    assert before_job(Job(700), node(hidden)).pids == [1]


@pytest.mark.parametrize("gpus", [["0"], ["nvidia0"], ["/dev/nvidia0"], None])
def test_a_gpu_can_be_named_in_several_ways(gpus: Known) -> None:
    holder = process(env={"SLURM_JOB_ID": "1"}, devices=["/dev/nvidia0"])
    assert before_job(Job(700), node(holder), gpus).pids == [1]
    by_uuid = process(env={"SLURM_JOB_ID": "1"}, gpus=["GPU-a"], gpu_memory_mib=5)
    assert before_job(Job(700), node(by_uuid), ["GPU-a"]).pids == [1]
    assert before_job(Job(700), node(by_uuid), ["GPU-b"]).pids == []


def test_memory_of_a_leftover_process_is_left_over() -> None:
    shm = [Shm(SHM + "x", 1001, holders=[1]), Shm(SHM + "y", 1001, holders=[2])]
    both = node(
        process(1, cgroup=OURS), process(2, cgroup=THEIRS), running=[502], shm=shm
    )
    assert list(after_job(ENDED, both).shm) == [SHM + "x"]


def test_memory_of_both_is_in_use() -> None:
    shm = [Shm(SHM + "x", 1001, holders=[1, 2])]
    both = node(
        process(1, cgroup=OURS), process(2, cgroup=THEIRS), running=[502], shm=shm
    )
    assert list(after_job(ENDED, both).shm) == []


def test_memory_named_after_the_job_is_its_own_even_beside_others() -> None:
    shm = [Shm(SHM + "job501_x", 1001), Shm(SHM + "job_502.x", 1001)]
    left = after_job(ENDED, node(process(2, cgroup=THEIRS), running=[502], shm=shm))
    assert list(left.shm) == [SHM + "job501_x"]


def test_memory_of_a_user_who_is_logged_in_may_be_in_use() -> None:
    shell = process(9, cgroup="/user.slice/user-1001.slice/session-1.scope")
    left = after_job(ENDED, node(shell, shm=[Shm(SHM + "x", 1001)]))
    assert list(left.shm) == []


def test_the_sentence_names_what_is_held() -> None:
    holder = process(7, cgroup=OURS, gpu_memory_mib=39000, ports=[29500])
    said = after_job(ENDED, node(holder)).message()
    assert "processes 7" in said
    assert "39000 MiB" in said
    assert "29500" in said
    assert after_job(ENDED, node()).message() == "nothing is left over"
