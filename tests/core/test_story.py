"""What srun says of a start: every line, to the character."""

from __future__ import annotations

import pytest
from core.c import NOBODY, ffi, lib
from core.gangs import SECOND, T0, Gang, Story, offer

EXIT, SIGNAL = lib.GS_FAIL_EXIT, lib.GS_FAIL_SIGNAL


def started(nodes: int = 2, per_node: int = 2, **fields: object) -> Story:
    """A released step: 1.9 s, rank 3 (or the last) 0.8 s after the first."""
    gang = Gang(nodes, per_node)
    for node in range(nodes):
        gang.hello(node)
    for rank in range(nodes * per_node - 1):
        gang.arrive(rank, T0 + 1_100_000)
    gang.arrive(nodes * per_node - 1, T0 + 1_900_000)
    assert gang.tick(T0 + 1_900_000) == lib.GS_RELEASED
    return Story(gang, **fields)


def test_a_good_start_is_one_line() -> None:
    story = started(master=offer("10.0.0.1"), master_addr="10.0.0.1")
    assert story.start() == (
        "gang-start: 4/4 tasks on 2/2 nodes in 1.9 s (last: rank 3 on n2, +0.8 s)"
        " · master n1:29500\n"
    )


def test_the_time_is_what_the_user_waited_not_from_the_first_node() -> None:
    assert " in 9.9 s (" in started(begun_us=T0 - 8 * SECOND).start()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user_address": True}, "head:29500 (MASTER_ADDR is yours)"),
        ({"user_port": True}, "n1:29500 (MASTER_PORT is yours)"),
        (
            {"user_address": True, "user_port": True},
            "head:29500 (MASTER_ADDR is yours)",
        ),
    ],
)
def test_what_the_user_set_himself_is_said_to_be_his(
    fields: dict[str, object], said: str
) -> None:
    story = started(master=offer("10.0.0.1", **fields), master_addr="head")
    assert story.start().endswith(f" · master {said}\n")


def test_slack_warns_only_beyond_it() -> None:
    story = started()
    for slack, warned in [(0, False), (0.8, False), (0.79, True)]:
        story.spec.slack_s = slack
        assert ("warning" in story.start()) == warned
    assert story.start().splitlines()[1] == (
        "gang-start: warning: rank 3 on n2 was 0.8 s later than the first (slack=0.79)"
    )


def test_tasks_that_see_too_few_gpus_are_warned_of_once() -> None:
    story = started(nodes=2, per_node=4)
    tasks = story.gang.c.tasks
    for rank in range(8):
        tasks[rank].visible = 4
    assert "warning" not in story.start(), "four GPUs for four tasks"
    tasks[1].visible = tasks[3].visible = tasks[7].visible = 1
    assert story.start().splitlines()[1:] == [
        (
            "gang-start: warning: 3 tasks see fewer GPUs than LOCAL_RANK needs (rank 1"
            " on n1: LOCAL_RANK 1, 1 visible); ask for --gpus-per-node, or use device 0"
            " in every task"
        )
    ]
    assert story.report()["warnings"] == ["GPU_BINDING"]


def timed_out(gang: Gang, after_s: int = 60, **fields: object) -> Story:
    assert gang.tick(T0 + after_s * SECOND) == lib.GS_REFUSED
    return Story(gang, **fields)


def test_a_timeout_names_the_missing_only_and_what_to_do() -> None:
    gang = Gang(nodes=4)
    for node in (0, 1, 3):
        gang.hello(node)
    for rank in (0, 1, 2, 6, 7):
        gang.arrive(rank)
    assert timed_out(gang).refusal() == (
        "gang-start: step 7877.0 refused after 60 s: 2 of 4 nodes are not ready"
        " (2 nodes, 5 tasks were ready)\n"
        "  n2          ranks 2-3       rank 3 not started\n"
        "  n3          ranks 4-5       never connected\n"
        "  next: scontrol show node n[2-3] · sbatch --exclude=n[2-3] …\n"
    )


def test_one_of_each_is_said_in_the_singular() -> None:
    gang = Gang(nodes=2, per_node=1)
    gang.hello(0)
    gang.arrive(0)
    assert timed_out(gang).refusal() == (
        "gang-start: step 7877.0 refused after 60 s: 1 of 2 nodes is not ready"
        " (1 node, 1 task was ready)\n"
        "  n2          rank 1          never connected\n"
        "  next: scontrol show node n2 · sbatch --exclude=n2 …\n"
    )


def test_nodes_in_the_same_state_share_a_line() -> None:
    gang = Gang(nodes=20, per_node=8)
    gang.hello(0)
    lines = timed_out(gang).refusal().splitlines()
    assert lines[1:3] == [
        "  n1          ranks 0-7       ranks 0-7 not started",
        "  n[2-20]     ranks 8-159     never connected",
    ]


def test_of_many_different_states_the_rest_shares_the_last_line() -> None:
    gang = Gang(nodes=500, per_node=4)
    for node in range(500):
        gang.hello(node)
        gang.arrive(node * 4)
    lines = timed_out(gang).refusal().splitlines()
    assert len(lines) == 26
    assert lines[23] == "  n23         ranks 88-91     ranks 89-91 not started"
    assert lines[24] == (
        "  n[24-500]   ranks 92-1999   not ready either: gangstart report 7877.0 tells"
        " of each"
    )
    assert lines[25].startswith("  next: scontrol show node n[1-500] ")


def test_every_missing_rank_of_a_large_node_is_named() -> None:
    gang = Gang(nodes=1, per_node=256)
    gang.hello(0)
    for rank in (0, 17, 255):
        gang.arrive(rank)
    line = timed_out(gang).refusal().splitlines()[1]
    assert line == "  n1          ranks 0-255     ranks 1-16,18-254 not started"


def test_nodes_whose_names_nobody_learnt_have_the_ranks_that_nobody_claimed() -> None:
    gang = Gang(nodes=3, known=False)
    gang.hello(0)
    gang.arrive(0)
    gang.arrive(1)
    said = timed_out(gang).refusal()
    assert "2 of 3 nodes are not ready" in said
    assert "  ?           ranks 2-5       never connected\n" in said
    assert "next" not in said, "there is no name to look up"


@pytest.mark.parametrize(
    ("kind", "status", "how"),
    [
        (EXIT, 3, "exit code 3"),
        (EXIT, 0, "exit code 0"),
        (SIGNAL, 11, "signal 11 (Segmentation fault)"),
        (SIGNAL, 6, "signal 6 (Aborted)"),
    ],
)
def test_a_task_that_ended_is_named_with_how(kind: int, status: int, how: str) -> None:
    gang = Gang()
    gang.everybody()
    gang.end(2, kind, status, T0 + 1_500_000)
    assert Story(gang).refusal() == (
        "gang-start: step 7877.0 refused after 1.5 s: a task ended before the start"
        " (1 node, 3 tasks were ready)\n"
        f"  n2          ranks 2-3       ended before the start: rank 2: {how}\n"
        "  next: look at the lines of rank 2 above · scontrol show node n2\n"
    )


def test_a_launch_that_failed_is_named_with_the_nodes_words() -> None:
    gang = Gang()
    gang.hello(1)
    gang.fail_node(1, lib.GS_FAIL_LAUNCH, "slurmstepd ended", T0 + 300_000)
    assert Story(gang).refusal() == (
        "gang-start: step 7877.0 refused after 0.3 s: a node could not launch its tasks"
        " (0 nodes, 0 tasks were ready)\n"
        "  n2          ranks 2-3       failed: slurmstepd ended\n"
        "  next: scontrol show node n2 · sbatch --exclude=n2 …\n"
    )


def test_a_configuration_that_cannot_work_says_what_not_whom_to_exclude() -> None:
    gang = Gang()
    gang.hello(0)
    gang.fail_node(0, lib.GS_FAIL_CONFIG, "MASTER_PORT=x is no port", T0)
    assert Story(gang).refusal() == (
        "gang-start: step 7877.0 refused after 0.0 s: options or environment cannot"
        " work (0 nodes, 0 tasks were ready)\n"
        "  n1          ranks 0-1       MASTER_PORT=x is no port\n"
        "  next: correct the option or variable and start again\n"
    )


def test_a_lost_node_is_named_with_how() -> None:
    gang = Gang()
    gang.everybody()
    lib.gs_gang_lost(gang.c, 1, b"Connection reset by peer", T0 + SECOND)
    assert Story(gang).refusal() == (
        "gang-start: step 7877.0 refused after 1.0 s: a node was lost"
        " (1 node, 4 tasks were ready)\n"
        "  n2          ranks 2-3       connection lost: Connection reset by peer\n"
        "  next: scontrol show node n2 · sbatch --exclude=n2 …\n"
    )


@pytest.mark.parametrize(
    ("result", "fields", "said"),
    [
        (
            lib.GS_REACH_CONNECT,
            {"detail": 113},
            "cannot reach 10.0.0.1 port 29500 from 10.0.0.3: No route to host",
        ),
        (
            lib.GS_REACH_CONNECT,
            {"detail": 110},
            "cannot reach 10.0.0.1 port 29500 from 10.0.0.3: Connection timed out",
        ),
        (
            lib.GS_REACH_STRANGER,
            {},
            "reaches another host at 10.0.0.1 port 29500",
        ),
        (lib.GS_REACH_RESOLVE, {}, "does not resolve head"),
        (
            lib.GS_REACH_ELSEWHERE,
            {"text": b"127.0.1.1"},
            "resolves head to 127.0.1.1 instead of 10.0.0.1",
        ),
    ],
)
def test_a_node_that_cannot_reach_rank_0_is_named_with_why(
    result: int, fields: dict[str, object], said: str
) -> None:
    gang = Gang(nodes=3, wiring=True)
    gang.everybody()
    gang.reach(0)
    gang.reach(1)
    gang.c.nodes[2].address = b"10.0.0.3"
    reach = ffi.new("struct gs_reach *", {"node_index": 2, "result": result, **fields})
    lib.gs_gang_reach(gang.c, reach)
    lib.gs_gang_unreachable(gang.c, T0 + 2 * SECOND)
    story = Story(gang, master=offer("10.0.0.1"), master_addr="head")
    assert story.refusal() == (
        "gang-start: step 7877.0 refused after 2.0 s: 1 of 3 nodes cannot reach the"
        " node of rank 0 (3 nodes, 6 tasks were ready)\n"
        f"  n3          ranks 4-5       {said}\n"
        "  next: scontrol show node n3 · sbatch --exclude=n3 …\n"
    )


def test_a_node_that_never_answered_the_probe_is_said_not_to_have() -> None:
    gang = Gang(nodes=2, wiring=True)
    gang.everybody()
    gang.reach(0)
    story = timed_out(gang, master=offer("10.0.0.1"), master_addr="10.0.0.1")
    assert (
        "  n2          ranks 2-3       has not said whether it reaches 10.0.0.1\n"
        in (story.refusal())
    )


def test_without_an_offer_it_is_rank_0s_node() -> None:
    gang = Gang(nodes=2, wiring=True)
    gang.everybody()
    assert timed_out(gang).refusal() == (
        "gang-start: step 7877.0 refused after 60.0 s: the node of rank 0 offered no"
        " address in time (2 nodes, 4 tasks were ready)\n"
        "  n1          ranks 0-1       has not offered an address for MASTER_ADDR\n"
        "  next: scontrol show node n1 · sbatch --exclude=n1 …\n"
    )


def test_ranks_that_contradict_the_others_are_named() -> None:
    gang = Gang(nodes=2, per_node=3)
    for node in range(2):
        gang.hello(node)
    for rank in range(6):
        gang.arrive(rank, claim=9 if rank in (3, 5) else 7)
    gang.tick()
    assert Story(gang).refusal().splitlines()[:2] == [
        (
            "gang-start: step 7877.0 refused after 0.0 s: the nodes do not agree on the"
            " step (2 nodes, 6 tasks were ready)"
        ),
        "  n2          ranks 3-5       contradicts the other ranks: rank 3, rank 5",
    ]


def test_an_end_by_slurm_names_who_was_not_ready() -> None:
    gang = Gang()
    gang.hello(0)
    gang.arrive(0)
    gang.arrive(1)
    lib.gs_gang_end(gang.c, False, T0 + 4 * SECOND)  # noqa: FBT003 - a C argument
    assert Story(gang).refusal().splitlines()[:2] == [
        (
            "gang-start: step 7877.0 refused after 4.0 s: 1 of 2 nodes is not ready"
            " when Slurm ended the launch (1 node, 2 tasks were ready)"
        ),
        "  n2          ranks 2-3       never connected",
    ]


def test_a_refusal_before_anybody_came_counts_from_sruns_wait() -> None:
    gang = Gang()
    lib.gs_gang_end(gang.c, False, T0 + 4 * SECOND)  # noqa: FBT003 - a C argument
    assert "refused after 4.0 s: 2 of 2 nodes are not ready" in Story(gang).refusal()


def test_every_reason_has_a_name_and_a_headline() -> None:
    names = {lib.gs_refusal_name(reason) for reason in range(9)}
    assert len(names) == 9
    assert ffi.NULL not in names


def test_131072_tasks_with_1000_missing_nodes_are_told_right() -> None:
    nodes, per_node = 16384, 8
    gang = Gang(nodes, per_node)
    missing = set(range(700, 1700))
    for node in set(range(nodes)) - missing:
        gang.hello(node)
        for rank in gang.ranks(node):
            gang.arrive(rank)
    story = timed_out(gang)
    assert story.refusal() == (
        "gang-start: step 7877.0 refused after 60 s: 1000 of 16384 nodes are not ready"
        " (15384 nodes, 123072 tasks were ready)\n"
        "  n[701-1700]  ranks 5600-13599  never connected\n"
        "  next: scontrol show node n[701-1700] · sbatch --exclude=n[701-1700] …\n"
    )
    report = story.report()
    assert (report["blamed_nodes"], report["missing_ranks"]) == (
        "n[701-1700]",
        "5600-13599",
    )
    assert report["arrived"] == {"nodes": 15384, "tasks": 123072}
    absent = [one["index"] for one in report["nodes"] if one["connected_s"] is None]
    assert set(absent) == missing
    assert all(
        (task["arrived_s"] is None) == (one["index"] in missing)
        for one in report["nodes"]
        for task in one["tasks"]
    )
    assert NOBODY not in absent
