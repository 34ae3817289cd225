"""The epilog: what the steps left goes to the archive, and the spool is empty again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from plugin.fakeslurm import Run, Slurm

PAIR = {"n001": "0", "n002": "1"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    path.mkdir()
    return path


@pytest.fixture
def left(slurm: Slurm) -> Path:
    """What a step of one node has left in the spool."""
    assert slurm.srun(nodes={"n001": "0"}).finish() == 0
    return slurm.step


def epilog(slurm: Slurm, archive: Path | str, node: str = "n001") -> Run:
    env = {"SLURMD_NODENAME": node}
    run = slurm.start("epilog", env=env, args=[f"archive={archive}"])
    assert run.finish() == 0
    assert [e["rc"] for e in run.all("hook")] == [0]
    return run


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_report_reaches_the_archive_and_the_spool_is_empty(
    slurm: Slurm, left: Path, archive: Path
) -> None:
    (left / "user" / "beats.jsonl").write_text("{}\n", encoding="utf-8")

    run = epilog(slurm, archive)

    assert run.stderr == ""
    assert tree(slurm.spool) == set()
    step = archive / "7877.0"
    assert tree(step) >= {"start.json", "n001/sys/start.json", "n001/user/beats.jsonl"}
    report = json.loads((step / "start.json").read_text(encoding="utf-8"))
    assert (report["complete"], report["outcome"]) == (True, "released")


def test_only_the_jobs_own_steps_are_taken(
    slurm: Slurm, left: Path, archive: Path
) -> None:
    for name in ("787.0", "78770.0", "17877.0"):
        (slurm.spool / name / "sys").mkdir(parents=True)
    (slurm.spool / "7877.12" / "sys").mkdir(parents=True)
    (slurm.spool / "7877.12" / "sys" / "start.json").write_text("{}", encoding="utf-8")

    epilog(slurm, archive)

    assert not left.exists()
    assert {p.name for p in slurm.spool.iterdir()} == {"787.0", "78770.0", "17877.0"}
    assert {p.name for p in archive.iterdir()} == {"7877.0", "7877.12"}


@pytest.mark.parametrize("order", [("n001", "n002"), ("n002", "n001")])
def test_the_complete_report_is_the_archives_whatever_node_comes_first(
    slurm: Slurm, archive: Path, order: tuple[str, str]
) -> None:
    reports = {
        "n001": '{"schema":"gangstart.start","version":1,"complete":true}',
        "n002": '{"schema":"gangstart.start","version":1,"complete":false}',
    }
    for node in order:
        (slurm.step / "sys").mkdir(parents=True)
        (slurm.step / "user").mkdir()
        (slurm.step / "sys" / "start.json").write_text(reports[node], encoding="utf-8")
        epilog(slurm, archive, node)

    step = archive / "7877.0"
    assert (step / "start.json").read_text(encoding="utf-8") == reports["n001"]
    for node, text in reports.items():
        kept = step / node / "sys" / "start.json"
        assert kept.read_text(encoding="utf-8") == text


def test_without_an_archive_the_spool_is_only_emptied(slurm: Slurm, left: Path) -> None:
    (left / "user" / "beats.jsonl").write_text("{}\n", encoding="utf-8")

    run = slurm.start("epilog", env={"SLURMD_NODENAME": "n001"})

    assert run.finish() == 0
    assert run.stderr == ""
    assert tree(slurm.spool) == set()


def test_an_archive_that_cannot_be_written_fails_nothing_and_loses_nothing(
    slurm: Slurm, left: Path
) -> None:
    run = epilog(slurm, "/proc/self/archive")

    (line,) = run.lines
    assert "epilog: job 7877: " in line
    assert "/proc/self/archive" in line
    assert (left / "sys" / "start.json").exists()


def test_a_spool_that_is_not_there_is_nothing_to_do(
    slurm: Slurm, archive: Path
) -> None:
    run = epilog(slurm, archive)

    assert run.stderr == ""
    assert tree(archive) == set()
