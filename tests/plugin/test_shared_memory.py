"""A task that writes what it likes over the memory it shares with slurmstepd.

slurmstepd is root and the task is not, so nothing that is found there may be believed:
slurmstepd lives on, and nobody starts whom srun did not start.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from plugin.fakeslurm import Run, Slurm

NODES = {"n001": "0,1,2", "n002": "3"}
RANDOM, ONES, ZEROS = 1, 2, 3
EXIT_75 = 75 << 8


def ended_well(run: Run, node: str) -> bool:
    """Tell whether a node's slurmstepd came to its own end."""
    return bool(run.all("hook", who=f"slurmstepd-{node}", hook="slurm_spank_exit"))


@pytest.mark.parametrize("how", [RANDOM, ONES, ZEROS], ids=["random", "ones", "zeros"])
def test_garbage_starts_nobody_and_ends_no_slurmstepd(slurm: Slurm, how: int) -> None:
    run = slurm.srun(
        "--gang-start=timeout=1", nodes=NODES, ranks={0: f"scribble:{how}"}
    )
    run.wait_for("scribbled", rank=0)

    statuses = [run.status(rank) for rank in (1, 2, 3)]
    os.kill(run.task(0), signal.SIGKILL)

    # The code of a refusal is in that memory too; on the other node it is srun's.
    assert statuses[2] == EXIT_75
    assert all(os.WIFEXITED(status) for status in statuses[:2])
    assert run.finish() == 75
    assert slurm.ran() == []
    assert ended_well(run, "n001")
    assert ended_well(run, "n002")


def test_garbage_does_not_keep_a_start_from_everybody(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start=20", nodes=NODES, ranks={2: "scribble:0"})

    assert run.finish() == 0
    assert slurm.ran() == [0, 1, 2, 3]
    assert ended_well(run, "n001")


def test_garbage_does_not_keep_a_refusal_from_anybody(slurm: Slurm) -> None:
    ranks = {0: "scribble:0", 3: "never"}
    run = slurm.srun("--gang-start=60", nodes=NODES, ranks=ranks)
    run.await_barrier(0, 1, 2)

    os.kill(run.task(3), signal.SIGABRT)

    assert [run.status(rank) for rank in (0, 1, 2)] == [EXIT_75] * 3
    assert run.finish() == 75
    assert slurm.ran() == []


def test_a_task_that_waits_in_garbage_sleeps(slurm: Slurm) -> None:
    ranks = {0: "scribble:0", 3: "never"}
    run = slurm.srun("--gang-start=60", nodes=NODES, ranks=ranks)

    run.await_barrier(0, 1, 2)  # by its state, which is that of a sleeper

    os.kill(run.task(3), signal.SIGABRT)
    assert run.finish() == 75
