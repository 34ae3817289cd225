"""What /proc and the memory cgroups say, read from files as kernels write them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from core.c import ffi, lib, new, text

if TYPE_CHECKING:
    from pathlib import Path

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
STEP = "/slurm/uid_0/job_7/step_0"


def kills(cgroups: str, mount: Path) -> int:
    """Ask the core, as slurmstepd would."""
    found: int = lib.gs_proc_oom_kills(cgroups.encode(), str(mount).encode())
    return found


def put(path: Path, content: str) -> None:
    """Write a file of a cgroup."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize("place", [STEP, "/slurm/uid_0/job_7"], ids=["own", "above"])
def test_kills_of_a_v1_cgroup_are_counted(tmp_path: Path, place: str) -> None:
    put(tmp_path / f"memory{place}" / "memory.oom_control", V1.format(2))
    cgroups = f"12:cpuset:/other\n4:memory:{STEP}\n1:name=systemd:/\n"
    assert kills(cgroups, tmp_path) == 2


@pytest.mark.parametrize("place", [STEP, "/slurm/uid_0/job_7"], ids=["own", "above"])
def test_kills_of_a_v2_cgroup_are_counted(tmp_path: Path, place: str) -> None:
    put(tmp_path / place[1:] / "memory.events", V2.format(5))
    assert kills(f"0::{STEP}\n", tmp_path) == 5


def test_the_larger_count_of_the_cgroup_and_the_one_above_counts(
    tmp_path: Path,
) -> None:
    put(tmp_path / STEP[1:] / "memory.events", V2.format(0))
    put((tmp_path / STEP[1:]).parent / "memory.events", V2.format(1))
    assert kills(f"0::{STEP}\n", tmp_path) == 1


def test_where_both_kinds_are_mounted_the_one_with_memory_counts(
    tmp_path: Path,
) -> None:
    put(tmp_path / f"memory{STEP}" / "memory.oom_control", V1.format(3))
    assert kills(f"4:memory:{STEP}\n0::/unified\n", tmp_path) == 3
    assert kills(f"0::/unified\n4:memory:{STEP}\n", tmp_path) == 3


def test_a_v1_cgroup_named_like_memory_is_not_it(tmp_path: Path) -> None:
    put(tmp_path / f"memory{STEP}" / "memory.oom_control", V1.format(3))
    assert kills(f"4:memory_other:{STEP}\n", tmp_path) == -1


@pytest.mark.parametrize(
    "cgroups",
    ["", "\n", "garbage\n", "4:memory\n", f"0::{STEP}\n", f"0::/{'x' * 5000}\n"],
)
def test_what_cannot_be_read_is_not_known(tmp_path: Path, cgroups: str) -> None:
    assert kills(cgroups, tmp_path) == -1


def test_an_old_kernel_that_does_not_count_is_not_known(tmp_path: Path) -> None:
    put(tmp_path / f"memory{STEP}" / "memory.oom_control", "oom_kill_disable 0\n")
    assert kills(f"4:memory:{STEP}\n", tmp_path) == -1


def test_a_process_is_read_as_it_is() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        proc = new("gs_proc")
        assert lib.gs_proc_read(child.pid, proc)
        assert proc.parent == os.getpid()
        assert proc.letter.decode() in "RSD"
        assert text(proc.command).startswith("python")
    finally:
        child.communicate(b"\n", timeout=30)


def test_a_process_that_is_gone_is_not_read() -> None:
    child = subprocess.Popen(["true"])
    child.wait(30)
    proc = ffi.new("struct gs_proc *")
    assert not lib.gs_proc_read(child.pid, proc)
