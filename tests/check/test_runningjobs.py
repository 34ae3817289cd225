"""Which jobs run, told without any Slurm command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from check.fakenode import OURS, FakeNode, FakeProcess
from gangstart.check import record, running, scan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="node")
def fake(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def jobs(node: FakeNode, judged: int | None = None, *known: int) -> list[int] | None:
    """Jobs that run, as a scan tells."""
    found = scan.scan(node.roots, judged, open_jobs=frozenset(known)).running
    return None if found is None else sorted(found)


@pytest.mark.parametrize(
    ("title", "step"),
    [
        ("slurmstepd: [501.0]", (501, "0")),
        ("slurmstepd: [501.batch]", (501, "batch")),
        ("slurmstepd: [501+1.0]", (501, "1.0")),
        ("slurmstepd: [501]", (501, "")),
        ("slurmstepd infinity", None),
        ("x slurmstepd: [501.0]", None),
        ("slurmstepd: [501", None),
    ],
)
def test_a_stepds_title_names_its_step(title: str, step: tuple[int, str]) -> None:
    assert running.step_of(title) == step


def test_a_title_that_a_user_wrote_is_no_step(node: FakeNode) -> None:
    node.add(7, FakeProcess(("slurmstepd: [501.0]",), uid=0))
    node.add(8, FakeProcess(("slurmstepd: [502.0]",)))
    assert jobs(node, None) == [501]


def test_the_extern_step_counts_unless_the_check_itself_is_inside_of_that_job(
    node: FakeNode,
) -> None:
    node.add(7, FakeProcess(("slurmstepd: [501.extern]",), uid=0))
    assert jobs(node, 501) == [501]
    own = node.roots.proc / str(os.getpid()) / "cgroup"
    own.write_text(OURS.replace("step_0", "step_extern"))
    assert jobs(node, 501) == []
    assert jobs(node, 502) == [501]


def test_the_extern_step_that_started_the_check_does_not_count_without_cgroups(
    node: FakeNode,
) -> None:
    node.add(7, FakeProcess(("slurmstepd: [501.extern]",), uid=0))
    stat = node.roots.proc / str(os.getpid()) / "stat"
    stat.write_text(stat.read_text().replace(" S 1 ", " S 7 "))
    assert jobs(node, 501) == []
    assert jobs(node, 502) == [501]


@pytest.mark.parametrize(
    "path",
    [
        "system.slice/slurmstepd.scope/job_502/step_0/user/task_0",
        "system.slice/n1_slurmstepd.scope/job_502",
        "freezer/slurm/uid_1001/job_502/step_0",
        "slurm_n1/uid_1001/job_502/step_batch",
    ],
)
def test_a_cgroup_with_a_process_is_a_running_job(node: FakeNode, path: str) -> None:
    node.cgroup(path, 42)
    assert jobs(node, 501) == [502]
    assert jobs(node, 502) == []


def test_an_empty_cgroup_is_none(node: FakeNode) -> None:
    node.cgroup("system.slice/slurmstepd.scope/job_502/step_0")
    assert jobs(node, None) == []


def test_a_cgroup_that_a_user_named_so_elsewhere_is_none(node: FakeNode) -> None:
    node.cgroup("user.slice/slurm/job_502", 42)
    (node.roots.cgroup / "slurm").mkdir()
    (node.roots.cgroup / "slurm" / "job_503").symlink_to(
        node.roots.cgroup / "user.slice" / "slurm" / "job_502"
    )
    assert 503 not in (jobs(node) or ())


def test_who_cannot_see_process_1_cannot_tell(node: FakeNode) -> None:
    (node.roots.proc / "1").rename(node.root / "hidden")
    assert jobs(node) is None


def test_a_job_whose_prolog_is_recorded_and_whose_epilog_is_not_runs(
    node: FakeNode,
) -> None:
    for job, stages in ((501, ["prolog"]), (502, ["prolog", "epilog"])):
        for stage in stages:
            record.Spool(node.spool, job).append(
                {"event": "check", "stage": stage, "job_uid": 1001}
            )
    assert record.open_jobs(node.spool) == {501: 1001}
    assert jobs(node, None, 501) == [501]
