"""The epilog: what the steps left goes to the archive, and the spool is empty again."""

from __future__ import annotations

import json
import os
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


def test_what_the_user_left_is_neither_followed_nor_trusted(
    slurm: Slurm, left: Path, archive: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's", encoding="utf-8")
    others = tmp_path / "others"
    others.mkdir()
    (others / "kept").write_text("kept", encoding="utf-8")
    user = left / "user"
    (user / "link").symlink_to(secret)
    (user / "linked folder").symlink_to(others)
    (user / "loop").symlink_to("loop")
    os.mkfifo(user / "fifo")
    (user / ("n" * 255)).write_text("huge name", encoding="utf-8")
    (user / "folder" / "in" / "folder").mkdir(parents=True)
    (user / "folder" / "in" / "file").write_text("deep", encoding="utf-8")
    (user / "empty").mkdir()
    (user / "unreadable").write_text("x", encoding="utf-8")
    (user / "unreadable").chmod(0)
    (user / "new\nline").write_text("odd name", encoding="utf-8")
    (user / "good").write_text("good", encoding="utf-8")

    run = epilog(slurm, archive)

    assert run.stderr == ""
    assert tree(slurm.spool) == set()
    kept = archive / "7877.0" / "n001" / "user"
    assert (kept / "good").read_text(encoding="utf-8") == "good"
    assert all(path.is_file() and not path.is_symlink() for path in kept.iterdir())
    assert "link" not in tree(kept)
    assert secret.read_text(encoding="utf-8") == "root's"
    assert (others / "kept").read_text(encoding="utf-8") == "kept"


def test_folders_nested_hundreds_deep_are_removed(
    slurm: Slurm, left: Path, archive: Path
) -> None:
    here = os.open(left / "user", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    epilog(slurm, archive)

    assert tree(slurm.spool) == set()


def test_a_link_in_the_place_of_the_users_folder_is_not_followed(
    slurm: Slurm, left: Path, archive: Path, tmp_path: Path
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "kept").write_text("kept", encoding="utf-8")
    (left / "user").rmdir()
    (left / "user").symlink_to(others)

    epilog(slurm, archive)

    assert tree(others) == {"kept"}
    assert "kept" not in {path.name for path in archive.rglob("*")}


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


def test_a_full_archive_loses_nothing(slurm: Slurm, left: Path, archive: Path) -> None:
    (archive / "7877.0" / "n001" / "sys" / "start.json" / "in the way").mkdir(
        parents=True
    )

    run = epilog(slurm, archive)

    assert len(run.lines) == 1
    assert (left / "sys" / "start.json").exists()


def test_one_step_that_cannot_be_kept_does_not_hold_back_the_others(
    slurm: Slurm, left: Path, archive: Path
) -> None:
    for number in (1, 2):
        other = slurm.spool / f"7877.{number}" / "sys"
        other.mkdir(parents=True)
        (other / "start.json").write_text("{}", encoding="utf-8")
    (archive / "7877.1").write_text("in the way", encoding="utf-8")

    run = epilog(slurm, archive)

    assert len(run.lines) == 1
    assert {p.name for p in slurm.spool.iterdir()} == {"7877.1"}
    assert not left.exists()
    assert (archive / "7877.2" / "n001" / "sys" / "start.json").exists()


def test_a_spool_that_is_not_there_is_nothing_to_do(
    slurm: Slurm, archive: Path
) -> None:
    run = epilog(slurm, archive)

    assert run.stderr == ""
    assert tree(archive) == set()
