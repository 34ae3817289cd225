"""Steps of several parts, steps side by side, steps within steps, jobs run again."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, Gang, refusal, until
from cluster.launching import hurried
from cluster.trouble import NEVER, job_id, sabotage
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Ran

pytestmark = pytest.mark.cluster

WHO = ("/bin/sh", "-c", "echo $RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT")
PATIENCE = 5.0


@pytest.fixture
def het(gang_on: Callable[[Spec], Gang], saboteur: str) -> Gang:
    """Run steps where jobs of several parts, which only backfill starts, start soon."""
    gang = gang_on(Spec(slurm_lines=("SchedulerParameters=bf_interval=1",)))
    plugstack = gang.cluster.directory / "etc" / "plugstack.conf"
    plugstack.write_text(f"{saboteur}\n{plugstack.read_text()}")
    return gang


MEETING = (
    "import gangstart as g, os; made = [g.barrier(30) for _ in range(3)][-1]; "
    "me = g.current(); os.write(1, f'{me.rank} {me.world_size} {me.started} "
    "{made.number}\\n'.encode())"
)
MEET = (sys.executable, "-c", MEETING)


def check_world(ran: Ran, size: int) -> None:
    """One start of so many ranks that all know the same place to meet at."""
    assert ran.code == 0, ran.err
    assert [row[:2] for row in ran.rows] == [[str(r), str(size)] for r in range(size)]
    assert len({row[2] for row in ran.rows}) == 1
    assert len(ran.told) == 1, ran.err
    assert f"{size}/{size} tasks" in ran.told[0]


def test_the_parts_of_a_step_meet_in_one_barrier(het: Gang) -> None:
    ran = het.srun("-N2", "-n4", "--gang-start=20", *MEET, ":", "-N1", "-n3", *MEET)
    assert ran.code == 0, ran.err
    assert ran.rows == [[str(rank), "7", "plugin", "3"] for rank in range(7)]


def test_a_step_of_two_parts_is_one_world(het: Gang) -> None:
    parts = ("-N2", "-n4", "--gang-start=20", *WHO, ":", "-N1", "-n3", *WHO)
    ran = het.srun(*parts)
    check_world(ran, 7)
    assert "on 3/3 nodes" in ran.told[0]
    het.clean(20)


def test_parts_of_a_het_allocation_are_one_world(het: Gang) -> None:
    step = ["srun", "--het-group=0,1", "--gang-start=20", *WHO]
    ran = het.run(["salloc", "-Q", "-N2", "-n2", ":", "-N1", "-n2", *step])
    check_world(ran, 4)
    het.clean(20)


def test_a_part_that_is_late_is_named(het: Gang) -> None:
    env = sabotage("task_init", "0", f"hold={NEVER}")
    trace = het.trace()
    ran = het.srun(
        *("-N2", "-n2", "--gang-start=2", *trace, ":", "-N1", "-n1", *trace),
        env=env,
    )
    assert ran.code == 75, ran.err
    assert len([line for line in ran.told if " refused after 2 s: " in line]) == 1
    assert het.started() == []
    het.clean(35)


def test_a_part_whose_node_hangs_is_named_and_the_others_are_not(het: Gang) -> None:
    het.cluster.signal_slurmd("n3", "stop")
    try:
        trace = het.trace()
        ran = het.srun(
            *("-w", "n[1-2]", "-N2", "-n2", "--gang-start=2", *trace),
            *(":", "-w", "n3", "-N1", "-n1", *trace),
        )
    finally:
        het.cluster.signal_slurmd("n3", "cont")
    assert set(refusal(ran)) == {"n3"}
    assert "1 of 3 nodes is not ready (2 nodes, 2 tasks were ready)" in ran.told[0]
    het.clean(35)
    assert het.started() == []


def test_steps_of_one_job_at_once_do_not_disturb_each_other(gang: Gang) -> None:
    one = "srun -Q -N4 -n8 --overlap --gang-start=30 sh -c 'echo $RANK $MASTER_PORT'"
    script = f"{one} >{gang.folder}/a & {one} >{gang.folder}/b & wait"
    ran = gang.run(["salloc", "-Q", "-N4", "--exclusive", "sh", "-c", script])
    assert ran.code == 0, ran.err
    ports = []
    for name in "ab":
        rows = sorted((gang.folder / name).read_text().split("\n")[:-1])
        assert [row.split()[0] for row in rows] == [str(rank) for rank in range(8)]
        ports.append({row.split()[1] for row in rows})
    assert [len(port) for port in ports] == [1, 1]
    assert ports[0] != ports[1], "they live side by side on rank 0's node"
    gang.clean(20)


@pytest.mark.parametrize("flag", ["--gang-start=30", ""], ids=["gang", "plain"])
def test_a_step_within_a_gang_task_is_a_step_of_its_own(gang: Gang, flag: str) -> None:
    inner = f"srun --overlap -N2 -n2 {flag} sh -c 'echo inner $RANK/$WORLD_SIZE'"
    script = f"echo outer $RANK; [ $RANK != 0 ] || {inner}"
    step = ["srun", "--gang-start=30", "-N2", "-n2", "sh", "-c", script]
    ran = gang.run(["salloc", "-Q", "-N2", "--exclusive", *step])
    assert ran.code == 0, ran.err
    rows = sorted(ran.out.splitlines())
    assert rows[2:] == ["outer 0", "outer 1"]
    if flag:
        assert rows[:2] == ["inner 0/2", "inner 1/2"]
    assert len(ran.told) == (2 if flag else 1), ran.err
    gang.clean(20)


def test_a_job_that_is_run_again_is_a_new_start(sabotaged: Gang) -> None:
    gang, out, late = sabotaged, sabotaged.folder / "out", sabotaged.folder / "late"
    words = " ".join(
        f"{key}={value}"
        for key, value in sabotage("task_init", "0", f"hold={late}").items()
    )
    script = gang.folder / "job.sh"
    script.write_text(
        f"#!/bin/sh\n{words} srun --gang-start=60 sh -c "
        "'echo $RANK of $WORLD_SIZE run $SLURM_RESTART_COUNT'\n"
    )
    options = ("-N2", "--ntasks-per-node=1", "--requeue", "--open-mode=append")
    assert gang.run(["sbatch", *options, f"--output={out}", script]).code == 0
    gang.until_waiting(1)
    job = job_id(gang)
    assert gang.run(["scontrol", "requeue", job]).code == 0
    state = ["squeue", "-h", "-o", "%T", "-j", job]
    until(lambda: gang.run(state).out.strip() == "PENDING", "it to be queued again")
    assert gang.pids(WAITING) == {}

    def again() -> bool:
        hurried(gang, job)
        return len(gang.pids(WAITING)) == 1

    until(again, "its task to wait")
    late.touch()
    gang.quiet(60)
    text = out.read_text()
    rows = sorted(
        line for line in text.splitlines() if " of " in line and "run" in line
    )
    assert rows[-2:] == ["0 of 2 run 1", "1 of 2 run 1"], text
    assert "refused" not in text
    assert json.dumps(gang.copies()[-1]).count('"released"') == 1
    gang.clean(20)
