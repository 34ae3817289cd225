"""How many GPUs Slurm expects of a node: what it says of them, and what if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from check.fakenode import FakeNode, Known, health
from gangstart.check import gres
from gangstart.check.leftover import Job

if TYPE_CHECKING:
    from pathlib import Path

NODE = """NodeName=n1 Arch=x86_64 CoresPerSocket=1
   ActiveFeatures=(null)
   Gres={gres}
   State=IDLE Reason=Gres=gpu:99
"""


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ("gpu:8", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:h100:8(S:0,1)", 8),
        ("gpu:h100:4(S:0,2),gpu:a100:2(S:1),nvme:3", 6),
        ("nvme:2,gpu:1", 1),
        ("gpu", 1),
        ("gpu:tesla", 1),
        ("gpu:no_consume:2", 2),
        ("gpu:0", 0),
        ("(null)", 0),
        ("", 0),
        ("shard:16,mps:400", 0),
        ("gpuish:7", 0),
        ("gpu:a100_1g.10gb:7,gpu:a100:1", 0),
        ("gpu:4K", 0),
    ],
)
def test_the_gpus_in_gres_are_counted(told: str, count: int) -> None:
    assert gres.count(told) == count


def scontrol(folder: Path, body: str) -> Path:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_slurm_is_asked_for_the_node(tmp_path: Path) -> None:
    shown = NODE.format(gres="gpu:h100:8(S:0-1)")
    body = f'[ "$*" = "show node n1" ] || exit 1\ncat <<"END"\n{shown}END'
    path = scontrol(tmp_path, body)
    assert gres.expected("n1", path) == 8
    assert gres.expected("n2", path) == 0
    assert gres.expected("-o n1", path) == 0


def test_without_a_slurm_that_answers_nothing_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gres.expected("n1", tmp_path / "none") == 0
    assert gres.expected("n1", scontrol(tmp_path, "echo Gres=gpu:8; exit 1")) == 0
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert gres.expected("n1") == 0


def test_a_controller_that_hangs_has_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gres, "DEADLINE_S", 0.1)
    assert gres.expected("n1", scontrol(tmp_path, "exec sleep 60")) == 0
    assert gres.DEADLINE_S < 5


def test_slurm_is_asked_only_beside_jobs(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    asked: list[str] = []
    counts: list[Known] = []

    def expected(name: str) -> int:
        asked.append(name)
        return 8

    def measure(_stage: str, **given: Known) -> Known:
        counts.append(given["expected"])
        return health()

    world = {"measure": measure, "expected": expected}
    for stage in ("prolog", "epilog", "node"):
        node.check(stage, world, job=Job(501))
    assert (asked, counts) == (["n1"], [0, 0, 8])
