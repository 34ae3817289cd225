"""What srun says where other plugins hold tasks, or take them to other networks."""

from __future__ import annotations

import pytest
from core.c import lib, new
from core.gangs import SECOND, T0, Gang, offer
from core.test_story import started, timed_out


def test_a_network_of_rank_0s_own_is_told_and_not_called_proven() -> None:
    story = started(master=offer("10.0.0.1"), master_addr="10.0.0.1")
    tasks = story.gang.c.tasks
    tasks[3].apart = True
    assert story.start().splitlines()[1:] == [
        (
            "gang-start: warning: rank 3 is in a network namespace that is not n2's, as"
            " in a container: n2 reaches MASTER_ADDR 10.0.0.1, whether it does is not"
            " known"
        )
    ]
    assert story.report()["warnings"] == ["NETWORK_NAMESPACE"]
    assert story.report()["master"]["proven"] is True
    tasks[0].apart = True
    assert story.start().splitlines()[1:] == [
        (
            "gang-start: warning: rank 0 is in a network namespace that is not n1's, as"
            " in a container: MASTER_ADDR 10.0.0.1 port 29500 is proven for n1, not for"
            " it; give it the network of the host (so for 2 of 4 tasks)"
        )
    ]
    assert story.report()["master"]["proven"] is False


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "another plugin's task_init or Slurm's set-up for 58 s"),
        (
            {"ahead": b"pyxis, a", "child": b"enroot", "wchan": b"do_wait"},
            (
                "task_init of pyxis, a or Slurm's set-up, running enroot (do_wait)"
                " for 58 s"
            ),
        ),
    ],
)
def test_a_task_that_another_plugin_holds_is_told_so(
    known: dict[str, bytes], said: str
) -> None:
    gang = Gang()
    gang.hello(0)
    gang.hello(1)
    for rank in range(3):
        gang.arrive(rank)
    state = new("gs_state", node_index=1, rank=3, pid=4711, letter=ord("S"), **known)
    lib.gs_gang_state(gang.c, state, T0 + 2 * SECOND)
    lines = timed_out(gang).refusal().splitlines()
    told = f"rank 3 not started: pid 4711 still in {said}"
    assert lines[1] == f"  n2          ranks 2-3       {told}"
