"""A check from end to end, on a node made of files: verdicts, records, comparison."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from check.fakenode import (
    GPU,
    OURS,
    THEIRS,
    FakeNode,
    FakeProcess,
    Known,
    fine,
    found,
    health,
)
from gangstart.check import aside, judge
from gangstart.check.leftover import Job
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from pathlib import Path

JOB = Job(501, uid=1001)


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def holder(**known: Known) -> FakeProcess:
    known.setdefault("cgroup", OURS)
    known.setdefault("files", [GPU])
    return FakeProcess(**known)


def test_a_healthy_node_is_ok_in_every_stage(node: FakeNode) -> None:
    for stage in ("prolog", "epilog", "node"):
        event = node.check(stage, job=JOB)
        assert (event["verdict"], event["drain"]) == ("ok", False)
        assert event["reason"] == "ok it is"
        assert event["leftovers"]["running"] == []


def test_a_node_without_gpus_is_ok(node: FakeNode) -> None:
    none = health("unknown")
    vars(none)["none"] = True
    event = node.check("node", {"measure": lambda *_, **__: none})
    assert event["verdict"] == "ok"


@pytest.mark.parametrize(
    ("verdict", "drain", "drained"),
    [("fail", True, True), ("fail", False, False), ("unknown", True, False)],
)
def test_only_what_fails_and_says_so_drains(
    node: FakeNode, verdict: str, *, drain: bool, drained: bool
) -> None:
    event = node.check(
        "prolog", {"measure": lambda *_, **__: health(verdict, drain=drain)}, job=JOB
    )
    assert (event["verdict"], event["drain"]) == (verdict, drained)


def test_what_an_ended_job_holds_on_a_gpu_fails_and_drains(node: FakeNode) -> None:
    node.add(7, holder(argv=("python", "train.py", "--key", "s3cret")))
    gpus = [{"index": 0, "processes": [{"pid": 7, "memory": 39000 << 20}]}]
    event = node.check(
        "epilog", {"measure": lambda *_, **__: health(gpus=gpus)}, job=JOB
    )
    assert (event["verdict"], event["drain"]) == ("fail", True)
    assert event["reason"] == (
        "process 7 (train.py, user 1001) is of job 501, which has ended, known by its "
        "cgroup; it holds GPU 0, 39000 MiB of GPU memory"
    )
    assert "s3cret" not in str(event)
    (left,) = event["leftovers"]["processes"]
    assert (left["pid"], left["job"], left["proof"]) == (7, 501, "cgroup")


def test_one_that_holds_no_gpu_is_only_warned_of(node: FakeNode) -> None:
    node.add(7, holder(files=[]))
    event = node.check("epilog", job=JOB)
    assert (event["verdict"], event["drain"]) == ("warn", False)
    assert found(event, "leftover_process")


def test_processes_of_other_jobs_are_nobodys_business(node: FakeNode) -> None:
    node.cgroup("system.slice/slurmstepd.scope/job_502/step_0", 8)
    node.add(8, holder(cgroup=THEIRS))
    for stage in ("prolog", "epilog"):
        assert node.check(stage, job=JOB)["verdict"] == "ok"
    assert node.check("node")["verdict"] == "ok"


def test_before_a_job_only_a_known_gpu_in_the_way_drains(node: FakeNode) -> None:
    node.add(8, holder(cgroup=THEIRS))
    for gpus, drain in ((["0"], True), (["1"], False), (None, False)):
        event = node.check("prolog", job=JOB, gpus=gpus)
        assert (event["verdict"], event["drain"]) == ("fail", drain)


def test_a_user_who_looks_at_the_gpus_is_no_reason_to_drain(node: FakeNode) -> None:
    node.add(8, holder(cgroup="0::/user.slice/user-1001.slice/session-1.scope"))
    event = node.check("prolog", job=JOB, gpus=["0"])
    assert (event["verdict"], event["drain"]) == ("warn", False)


@pytest.mark.parametrize(
    ("uid", "cgroup"),
    [
        (143, "0::/system.slice/nvidia-persistenced.service"),
        (143, "0::/"),
        (1500, "12:pids:/system.slice/nvidia-dcgm.service\n0::/x"),
    ],
)
def test_the_drivers_own_daemons_are_not_in_the_way(
    node: FakeNode, uid: int, cgroup: str
) -> None:
    node.add(8, holder(uid=uid, cgroup=cgroup))
    for stage in ("prolog", "node"):
        event = node.check(stage, job=JOB, gpus=["0"])
        assert (event["verdict"], event["findings"]) == ("ok", [])


def test_a_user_in_slurmds_own_service_is_no_daemon(node: FakeNode) -> None:
    node.add(8, holder(cgroup="0::/system.slice/slurmd.service"))
    assert node.check("prolog", job=JOB, gpus=["0"])["verdict"] == "warn"


def test_a_job_that_slurm_still_runs_is_not_judged(node: FakeNode) -> None:
    node.add(6, FakeProcess(("slurmstepd: [501.0]",), uid=0))
    node.add(7, holder())
    event = node.check("epilog", job=JOB, cleanup="kill")
    assert (event["verdict"], event["drain"]) == ("unknown", False)
    assert "a slurmstepd of job 501 still runs" in event["reason"]
    assert event["leftovers"]["processes"] == []


def test_a_process_that_hangs_is_told_of_as_such(node: FakeNode) -> None:
    node.add(7, holder(state="D"))
    event = node.check("epilog", job=JOB)
    assert (event["verdict"], event["drain"]) == ("fail", True)
    assert (
        "hangs in the kernel (D state)" in found(event, "leftover_stuck")[0]["reason"]
    )


def test_a_zombie_holds_nothing(node: FakeNode) -> None:
    node.add(7, holder(state="Z"))
    assert node.check("epilog", job=JOB)["verdict"] == "ok"


def test_ports_that_the_next_job_will_miss_are_named(node: FakeNode) -> None:
    node.add(
        7,
        FakeProcess(
            env={"SLURM_JOB_ID": "501", "MASTER_PORT": "29500"},
            listens=[("00000000", p) for p in (29500, judge.RAS_PORT, 4000)],
        ),
    )
    event = node.check("epilog", job=JOB)
    assert [f["value"] for f in found(event, "leftover_port")] == ["28028", "29500"]
    assert "29500, its MASTER_PORT" in found(event, "leftover_port")[1]["reason"]


def test_shared_memory_is_named_with_its_maker(node: FakeNode) -> None:
    (node.roots.shm / "nccl-job501-x").write_text("x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gangstart.check.shm.file_of", owned_by_the_user)
        event = node.check("epilog", job=JOB)
    assert (event["verdict"], event["drain"]) == ("warn", False)
    assert "nccl-job501-x (NCCL)" in event["reason"]


def owned_by_the_user(name: str, info: Known) -> Known:
    from gangstart.check.shm import File  # noqa: PLC0415 - while file_of is replaced

    return File(name, 1001, info.st_dev, info.st_ino, 0)


def test_files_in_tmp_are_told_of_and_nothing_more(node: FakeNode) -> None:
    (node.roots.tmp / "torchelastic_x").mkdir()
    (node.roots.tmp / "thesis.tex").write_text("x")
    uid = (node.roots.tmp / "torchelastic_x").stat().st_uid
    job = Job(501, uid=uid or 1001)
    with pytest.MonkeyPatch.context() as patch:
        if uid == 0:
            patch.setattr(
                "gangstart.check.scan.temporary",
                lambda _: [("torchelastic_x", 1001, 1.0)],
            )
        event = node.check("epilog", job=job)
    assert event["verdict"] == "ok"
    (told,) = found(event, "leftover_tmp")
    assert (told["kind"], "torchelastic_x" in told["reason"]) == ("note", True)
    assert "thesis" not in told["reason"]


def test_with_cleanup_off_nobody_looks_for_leftovers(node: FakeNode) -> None:
    node.add(7, holder())
    assert node.check("epilog", job=JOB, cleanup="off")["verdict"] == "ok"


def test_who_cannot_tell_the_running_jobs_says_so(node: FakeNode) -> None:
    (node.roots.proc / "1").rename(node.root / "hidden")
    event = node.check("epilog", job=JOB)
    assert (event["verdict"], event["leftovers"]["running"]) == ("ok", None)
    assert found(event, "running_jobs")


def test_a_node_that_cannot_be_read_in_time_is_unknown(node: FakeNode) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside, "call", lambda _function, _deadline: None)
        event = node.check("epilog", job=JOB)
    assert (event["verdict"], event["drain"]) == ("unknown", False)
    assert "could not be read in time" in event["reason"]


def test_a_reader_that_breaks_is_as_one_that_does_not_answer() -> None:
    def broken() -> int:
        raise RuntimeError

    assert aside.call(broken, 10.0) is None
    assert aside.call(lambda: 7, 10.0) == 7
    big = "x" * (1 << 20)
    assert aside.call(lambda: big, 10.0) == big


def test_a_reader_that_hangs_is_left_behind() -> None:
    assert aside.call(signal.pause, 0.0) is None


def test_an_answer_that_was_cut_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "read_until", lambda _fd, _deadline: b"\0" * 8 + b"x")
    assert aside.call(lambda: 7, 10.0) is None


@pytest.mark.parametrize("error", [GangstartError("no"), OSError(2, "no such probe")])
def test_gpus_that_cannot_be_measured_are_unknown_to_a_hook(
    node: FakeNode, error: Exception
) -> None:
    def refuse(*_: Known, **__: Known) -> Known:
        raise error

    event = node.check("epilog", {"measure": refuse}, job=JOB)
    assert (event["verdict"], event["drain"]) == ("unknown", False)
    assert "no" in event["reason"]


def test_a_mistake_in_a_file_drains_no_node(node: FakeNode) -> None:
    def refuse(*_: Known, **__: Known) -> Known:
        raise GangstartError("gangstart.conf: line 3: what is 'x'?")

    event = node.check("prolog", {"measure": refuse}, job=JOB)
    assert (event["verdict"], event["drain"]) == ("unknown", False)
    assert event["reason"] == "gangstart.conf: line 3: what is 'x'?"
    with pytest.raises(GangstartError, match="line 3"):
        node.check("node", {"measure": refuse})


def test_running_inside_of_the_job_is_explained(node: FakeNode) -> None:
    me = FakeProcess(
        ("gangstart",), uid=0, cgroup=OURS.replace("step_0", "step_extern")
    )
    folder = node.roots.proc / str(os.getpid())
    (folder / "cgroup").write_text(me.cgroup)
    event = node.check("epilog", job=JOB)
    assert event["verdict"] == "ok"
    assert "PrologFlags=RunInJob" in found(event, "run_in_job")[0]["reason"]
    assert event["leftovers"]["processes"] == []


def test_only_the_worst_reasons_are_in_the_line(node: FakeNode) -> None:
    for pid in range(10, 16):
        node.add(pid, holder(files=[GPU] if pid == 15 else []))
    reason = node.check("epilog", job=JOB)["reason"]
    assert reason.startswith("process 15 ")
    assert reason.endswith("; and 3 more")


def test_thousands_of_processes_are_not_told_of_one_by_one(node: FakeNode) -> None:
    for pid in range(100_000, 100_000 + judge.TOLD + 7):
        node.add(pid, holder(files=[]))
    node.add(200_000, holder())
    event = node.check("epilog", job=JOB)
    told = found(event, "leftover_process")
    assert len(told) == judge.TOLD
    assert told[-1]["reason"] == "8 more processes of ended jobs are left over"
    assert len(found(event, "leftover_gpu")) == 1
    assert len(event["leftovers"]["processes"]) == judge.TOLD + 8


def test_the_measurement_is_told_what_it_needs(node: FakeNode) -> None:
    asked: dict[str, Known] = {}

    def measure(stage: str, **known: Known) -> Known:
        asked.update(known, stage=stage)
        return fine(stage)

    node.check("prolog", {"measure": measure}, job=JOB, gpus=["3"], conf="c", probe="p")
    assert {k: asked[k] for k in ("stage", "gpus", "conf", "probe")} == {
        "stage": "prolog",
        "gpus": ["3"],
        "conf": "c",
        "probe": "p",
    }
    assert 0 < asked["deadline_s"] <= 30
