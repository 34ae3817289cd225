"""Every layout: what a task is told is what Slurm really did with it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster.gang import Gang, Ran

pytestmark = pytest.mark.cluster

SLURMS = "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME"
OURS = "$RANK $LOCAL_RANK $NODE_RANK $GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"
TRUE_MAP = ("/bin/sh", "-c", f"echo {SLURMS}")
GANG_MAP = ("/bin/sh", "-c", f"echo {SLURMS} {OURS} $MASTER_ADDR $MASTER_PORT")

LAYOUTS = {
    "block": ["-N4", "-n8", "-m", "block"],
    "block filling nodes in turn": ["-N4", "-n8", "--ntasks-per-node=2"],
    "cyclic": ["-N4", "-n8", "-m", "cyclic"],
    "plane of two": ["-N4", "-n8", "-m", "plane=2"],
    "uneven": ["-N3", "-n7"],
    "uneven cyclic": ["-N4", "-n7", "-m", "cyclic"],
    "nodes named in reverse": ["-w", "n4,n2", "-n5"],
    "one node": ["-N1", "-n3"],
    "one task": ["-n1"],
    "one task on the last node": ["-n1", "-w", "n4"],
    "four nodes of eight tasks": ["-N4", "-n32"],
    "more tasks than processors": ["-N2", "-n20", "--overcommit"],
    "two processors each": ["-N4", "-n6", "-c2"],
    "environment of none": ["-N4", "-n6", "--export=NONE"],
    "environment of one variable": ["-N4", "-n6", "--export=FOO=1"],
    "environment preserved": ["-N4", "-n6", "--preserve-env"],
    "labelled": ["-N2", "-n4", "--unbuffered"],
}


def check(gang: Gang, plain: Ran, ran: Ran) -> None:
    """Compare the gang's map with Slurm's own, taken without the plugin."""
    assert plain.code == 0, plain.err
    assert ran.code == 0, ran.err
    true = [row[:4] for row in plain.rows]
    assert [row[:4] for row in ran.rows] == true
    tasks_on = Counter(node for *_, node in true)
    ports = set()
    for rank, local, index, node, *ours, address, port in ran.rows:
        expected = [rank, local, index, index, str(len(true)), str(tasks_on[node])]
        assert ours == expected, f"rank {rank} on {node}"
        assert address == gang.address(true[0][3])
        ports.add(port)
    assert len(ports) == 1
    assert len(ran.told) == 1, ran.err
    counts = f"{len(true)}/{len(true)} tasks on {len(tasks_on)}/{len(tasks_on)} nodes"
    assert ran.told[0].startswith(f"gang-start: {counts} in ")
    assert ran.told[0].endswith(f" · master {true[0][3]}:{port}")


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_every_task_is_told_what_it_really_is(gang: Gang, options: list[str]) -> None:
    plain = gang.srun(*options, *TRUE_MAP)
    gang.quiet()
    ran = gang.srun("--gang-start=20", *options, *GANG_MAP)
    check(gang, plain, ran)


def test_rank_0_need_not_be_on_the_first_node_of_the_list(gang: Gang) -> None:
    hosts = gang.folder / "hosts"
    hosts.write_text("n3\nn1\nn1\nn2\nn3\nn1\n")
    env = {"SLURM_HOSTFILE": str(hosts)}
    options = ["-n6", "-m", "arbitrary"]
    plain = gang.srun(*options, *TRUE_MAP, env=env)
    gang.quiet()
    ran = gang.srun("--gang-start=20", *options, *GANG_MAP, env=env)
    check(gang, plain, ran)
    # Slurm sorts the list to n[1-3]: the first node of it does not run rank 0.
    assert [row[3] for row in plain.rows] == ["n3", "n1", "n1", "n2", "n3", "n1"]
    assert plain.rows[0][2] == "2"


def test_a_step_on_a_part_of_the_allocation_counts_only_itself(gang: Gang) -> None:
    whole = ["salloc", "-Q", "-N4", "--ntasks-per-node=2"]
    step = ["srun", "-N2", "-n3", "-w", "n2,n4"]
    ran = gang.run([*whole, *step, "--gang-start=20", *GANG_MAP])
    gang.quiet()
    plain = gang.run([*whole, *step, *TRUE_MAP])
    check(gang, plain, ran)
    assert {row[3] for row in ran.rows} == {"n2", "n4"}
