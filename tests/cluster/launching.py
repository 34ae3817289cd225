"""What every way of launching has to keep: see test_launch_*.py."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import refusal
from cluster.trouble import sabotage, until_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.gang import Gang, Ran
    from gangstart.cluster import Cluster

#: How a start, and one that cannot be, is asked for.
FLAG = "--gang-start=20"
TIME = 1
SHORT = f"--gang-start={TIME}"
PATIENCE = 5.0
#: Prints what Slurm did with the task, then what a gang start told it.
SLURMS = "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME"
OURS = (
    "${RANK-none} ${LOCAL_RANK-none} ${NODE_RANK-none} ${WORLD_SIZE-none}"
    " ${LOCAL_WORLD_SIZE-none} ${MASTER_ADDR-none} ${MASTER_PORT-none}"
)
COLUMNS = 11
#: The program's own end: a start must hand it on, and never make one up.
CODE = 7


def who(gang: Gang) -> Path:
    """Make the program that tells who it is, and ends with CODE."""
    path = gang.folder / "who.sh"
    path.write_text(f"#!/bin/sh\necho {SLURMS} {OURS}\nexit {CODE}\n")
    path.chmod(0o755)
    return path


def rows_of(text: str) -> list[list[str]]:
    """The lines of who(), less what Slurm put before them, in the order of ranks."""
    rows = [line.split()[-COLUMNS:] for line in text.splitlines()]
    found = [row for row in rows if len(row) == COLUMNS and row[0].isdigit()]
    return sorted(found, key=lambda row: int(row[0]))


def check_world(gang: Gang, text: str, tasks: int) -> None:
    """Every task was told what Slurm did with it, and where rank 0 is."""
    rows = rows_of(text)
    assert [row[0] for row in rows] == [str(rank) for rank in range(tasks)], text
    on = Counter(row[3] for row in rows)
    for rank, local, index, node, *ours, address, port in rows:
        assert ours == [rank, local, index, str(tasks), str(on[node])], f"rank {rank}"
        assert address == gang.address(rows[0][3])
        assert port == rows[0][10]


def check_line(told: list[str], tasks: int) -> None:
    """One start, told in one line."""
    assert len(told) == 1, told
    assert told[0].startswith(f"gang-start: {tasks}/{tasks} tasks on "), told


def check_started(gang: Gang, ran: Ran, tasks: int) -> None:
    """A start of so many tasks: environment, line and exit code."""
    assert ran.code == CODE, ran.err
    check_line(ran.told, tasks)
    check_world(gang, ran.out, tasks)


def check_plain(ran: Ran, tasks: int) -> None:
    """A step without the flag: nothing of ours."""
    assert ran.code == CODE, ran.err
    rows = rows_of(ran.out)
    assert [row[4:] for row in rows] == [["none"] * 7] * tasks, ran.out
    assert ran.told == []


def check_refused(
    gang: Gang,
    rank: int,
    command: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a step whose rank comes too late: named in time, nothing is left of it."""
    late = gang.folder / "late"
    late.unlink(missing_ok=True)
    held = sabotage("task_init", str(rank), f"hold={late}")
    running = gang.start(command, env={**held, **(env or {})})
    until_text(running, " refused after ")
    # It need not be killed: that takes its time, and has tests of its own.
    late.touch()
    ran = running.wait()
    blamed = refusal(ran)
    assert len(blamed) == 1, blamed
    ((_, matter),) = blamed.values()
    assert matter == f"rank {rank} not started"
    assert ran.seconds <= TIME + PATIENCE
    gang.clean(20)
    assert gang.started() == []


def put_before_ours(gang: Gang, line: str) -> None:
    """Give a cluster a neighbour in plugstack.conf, for good.

    It was compiled for another cluster, whose folder the nodes of this one may not see.
    """
    mode, _, source = line.partition(" ")
    copy = gang.cluster.directory / "plugin" / Path(source).name
    shutil.copy(source, copy)
    path = gang.cluster.directory / "etc" / "plugstack.conf"
    path.write_text(f"{mode} {copy}\n{path.read_text()}")


@cache
def knows(cluster: Cluster, *words: str) -> bool:
    """Whether srun of this release takes an option; not all are in its --help."""
    return cluster.run(["srun", *words, "--version"]).returncode == 0


def need(cluster: Cluster, *words: str) -> None:
    """Skip where srun of this release has no such option."""
    if words and not knows(cluster, *words):
        release = cluster.run(["srun", "--version"]).stdout.strip()
        pytest.skip(f"srun of {release} has no {words[0]}")


@cache
def plugins(cluster: Cluster) -> set[str]:
    """Names of the plugins that this Slurm has."""
    shown = cluster.run(["scontrol", "show", "config"]).stdout
    lines = [line for line in shown.splitlines() if line.startswith("PluginDir")]
    folders = lines[0].partition("=")[2].strip().split(":")
    listed = cluster.run(["ls", *folders]).stdout
    return {line.removesuffix(".so") for line in listed.splitlines()}


def need_plugin(cluster: Cluster, name: str) -> None:
    """Skip where this Slurm comes without a plugin."""
    if name not in plugins(cluster):
        pytest.skip(f"this Slurm has no {name}.so")


@cache
def version(cluster: Cluster) -> tuple[int, int]:
    """Release line of the cluster's Slurm."""
    words = cluster.run(["srun", "--version"]).stdout.split()
    major, minor, *_ = words[-1].split(".")
    return int(major), int(minor)


def hurried(gang: Gang, job: str) -> None:
    """Let a job that was put back into the queue start now, if it waits for its time.

    Slurm makes it wait two minutes, and once more when its first run is cleaned up: so
    this is called again and again.
    """
    if "BeginTime" in gang.run(["squeue", "-h", "-o", "%r", "-j", job]).out:
        gang.run(["scontrol", "update", f"jobid={job}", "starttime=now"])
