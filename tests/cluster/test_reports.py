"""The report of a start: on every node, in the archive, and the user's own copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster

TWO_EACH = ("-N4", "--ntasks-per-node=2")
RANKS = {"n1": [0, 1], "n2": [2, 3], "n3": [4, 5], "n4": [6, 7]}


def wait_for(path: Path) -> list[str]:
    """Command of tasks that run until a file is there."""
    return ["sh", "-c", f"while [ ! -e {path} ]; do sleep 0.05; done"]


def test_every_node_has_the_report_while_the_step_runs(gang: Gang) -> None:
    go = gang.folder / "go"
    command = ["srun", *TWO_EACH, "--gang-start=20", *wait_for(go)]
    running = gang.start(command)
    until(lambda: len(gang.reports()) == 4, "a report on every node")
    reports = gang.reports()
    go.touch()
    assert running.wait().code == 0
    assert set(reports) == set(RANKS)
    step = gang.copies()[-1]["step"]
    for node, report in reports.items():
        assert (report["schema"], report["version"]) == ("gangstart.start", 1)
        assert (report["outcome"], report["exit_code"]) == ("released", 0)
        assert report["step"] == step
        assert report["arrived"] == {"nodes": 4, "tasks": 8}
        mine = next(one for one in report["nodes"] if one["name"] == node)
        assert [task["rank"] for task in mine["tasks"]] == RANKS[node]
    # Rank 0's node keeps the whole of it, the others what concerns them.
    complete = [node for node, report in reports.items() if report["complete"]]
    assert complete == ["n1"]


def test_the_archive_has_the_complete_report_after_the_job(gang: Gang) -> None:
    assert gang.srun(*TWO_EACH, "--gang-start=20", "true").code == 0
    copy = gang.copies()[-1]
    archived = gang.archived(copy["step"]["name"])
    assert archived == copy
    assert archived["complete"] is True
    for node in archived["nodes"]:
        assert [task["rank"] for task in node["tasks"]] == RANKS[node["name"]]
        assert node["phase"] == "ready"
        assert node["reaches_master"] is True
        assert 0 <= node["connected_s"] <= node["tasks"][0]["arrived_s"] + 5
    gang.clean()


def test_the_archive_has_the_report_of_a_refused_start_too(gang: Gang) -> None:
    env = {"MASTER_ADDR": "no-such-host.invalid"}
    assert gang.srun(*TWO_EACH, "--gang-start=20", "true", env=env).code == 78
    copy = gang.copies()[-1]
    assert (copy["outcome"], copy["exit_code"]) == ("refused", 78)
    assert any("no-such-host.invalid" in line for line in copy["message"])
    assert gang.archived(copy["step"]["name"]) == copy


def test_the_variables_lead_a_task_to_its_report(gang: Gang) -> None:
    # It comes a moment after the start: a task that needs it waits for it.
    wait = "while [ ! -e $GANGSTART_REPORT ]; do sleep 0.05; done"
    show = "echo $GANGSTART_STEP $GANGSTART_T0; cat $GANGSTART_REPORT"
    ran = gang.srun("-n1", "--gang-start=20", "sh", "-c", f"{wait}; {show}")
    assert ran.code == 0, ran.err
    head, _, text = ran.out.partition("\n")
    report = json.loads(text)
    step, t0 = head.split()
    assert report["step"]["name"] == step
    assert abs(float(t0) - report["decided_at"]) < 1


def test_a_copy_goes_where_the_user_wants_it(gang: Gang) -> None:
    path = gang.folder / "mine.json"
    ran = gang.srun("-N2", f"--gang-start=20,report={path}", "true")
    assert ran.code == 0, ran.err
    report = json.loads(path.read_text())
    assert report["complete"] is True
    assert f"report={path}" in report["spec"]
    assert gang.copies() == []


def test_a_copy_that_cannot_be_written_does_not_cost_the_start(gang: Gang) -> None:
    path = gang.folder / "missing" / "mine.json"
    ran = gang.srun("-N2", f"--gang-start=20,report={path}", "echo", "ran")
    assert (ran.code, ran.out) == (0, "ran\nran\n")
    assert f"cannot be written to {path}" in ran.err


def test_a_site_without_an_archive_only_cleans_up(gang: Gang) -> None:
    with gang.plugstack("{ours} archive=none"):
        assert gang.srun("-N2", "--gang-start=20", "true").code == 0
        gang.clean()
    step = gang.copies()[-1]["step"]["name"]
    assert not (gang.cluster.directory / "archive" / step).exists()


def test_every_step_of_a_job_is_archived(gang: Gang) -> None:
    step = "srun -N2 --gang-start=20 true"
    assert gang.run(["salloc", "-Q", "-N2", "sh", "-c", f"{step}; {step}"]).code == 0
    names = [copy["step"]["name"] for copy in gang.copies()]
    assert [name.partition(".")[2] for name in names] == ["0", "1"]
    for name in names:
        assert gang.archived(name)["step"]["name"] == name
