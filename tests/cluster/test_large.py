"""Many nodes: a start, and a refusal that names three of them in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, refusal, until
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Gang

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(("nodes", "within"), [(32, 20.0), (128, 40.0)])
def test_many_nodes_start_or_do_not(
    gang_on: Callable[[Spec], Gang], nodes: int, within: float
) -> None:
    # All launched directly: a node that forwards to others takes them with it when it
    # hangs, and 24.11 forwards from 17 nodes on.
    gang = gang_on(Spec(nodes=nodes, cpus=1, slurm_lines=("TreeWidth=256",)))
    ran = gang.srun(f"-N{nodes}", "--gang-start=60", *gang.trace())
    assert ran.code == 0, ran.err
    assert f"{nodes}/{nodes} tasks on {nodes}/{nodes} nodes" in ran.told[0]
    assert gang.started() == list(range(nodes))
    assert ran.seconds < within
    gang.quiet(60)
    for path in gang.folder.glob("ran.*"):
        path.unlink()
    stopped = ("n7", "n8", "n21")
    for node in stopped:
        gang.cluster.signal_slurmd(node, "stop")
    ran = gang.srun(f"-N{nodes}", "--gang-start=10", *gang.trace())
    assert refusal(ran) == {"n[7-8,21]": ("6-7,20", "never connected")}
    assert f"3 of {nodes} nodes are not ready" in ran.told[0]
    assert f"({nodes - 3} nodes, {nodes - 3} tasks were ready)" in ran.told[0]
    assert ran.seconds < within
    until(lambda: gang.pids(WAITING) == {}, "the waiting tasks to end", 15)
    for node in stopped:
        gang.cluster.signal_slurmd(node, "cont")
    # slurmstepd itself waits up to a minute for those of the nodes below it in Slurm's
    # tree, as it does for any step with a dead node: no task, and not ours to shorten.
    assert gang.started() == []
