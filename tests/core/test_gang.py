"""The start barrier's decision: what releases, what refuses, when, and naming whom."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from core.c import NOBODY, ffi, lib, new, text
from core.gangs import JOB, SECOND, STEP, T0, Gang

WAITING, RELEASED = lib.GS_WAITING, lib.GS_RELEASED
REFUSED, CANCELLED = lib.GS_REFUSED, lib.GS_CANCELLED
EXIT, SIGNAL = lib.GS_FAIL_EXIT, lib.GS_FAIL_SIGNAL


def test_everybody_there_is_a_release() -> None:
    gang = Gang()
    gang.everybody()
    assert gang.tick() == RELEASED
    assert gang.decision() == (RELEASED, 0, 0, NOBODY, NOBODY)
    assert gang.c.decided_us == T0


def test_one_task_short_is_a_wait_and_its_arrival_the_release() -> None:
    gang = Gang()
    for node in range(2):
        gang.hello(node)
    for rank in range(3):
        gang.arrive(rank)
    assert gang.tick(T0 + 59 * SECOND) == WAITING
    gang.arrive(3, T0 + 59 * SECOND)
    assert gang.tick(T0 + 59 * SECOND) == RELEASED


def test_the_layout_may_come_from_the_nodes_themselves() -> None:
    gang = Gang(known=False)
    gang.everybody()
    assert gang.tick() == RELEASED
    assert text(gang.c.nodes[1].name) == "n2"


def test_t_runs_from_the_first_hello_not_from_before() -> None:
    gang = Gang(timeout_s=5)
    assert gang.tick(T0) == WAITING
    assert lib.gs_gang_next_us(gang.c) == -1
    assert gang.tick(T0 + 3600 * SECOND) == WAITING
    first = T0 + 3600 * SECOND
    gang.hello(1, first)
    gang.hello(0, first + 4 * SECOND)
    assert lib.gs_gang_next_us(gang.c) == first + 5 * SECOND
    assert gang.tick(first + 5 * SECOND - 1) == WAITING
    assert gang.tick(first + 5 * SECOND) == REFUSED
    assert gang.decision()[1:3] == (lib.GS_REFUSAL_TIMEOUT, 75)


def test_a_task_that_comes_in_the_last_microsecond_is_in_time() -> None:
    gang = Gang(timeout_s=5)
    gang.everybody(T0)
    assert gang.tick(T0 + 5 * SECOND) == RELEASED


def test_a_task_that_comes_after_the_refusal_changes_nothing() -> None:
    gang = Gang(timeout_s=5)
    gang.hello(0)
    gang.arrive(0)
    gang.arrive(1)
    assert gang.tick(T0 + 5 * SECOND) == REFUSED
    before = gang.decision()
    gang.hello(1, T0 + 6 * SECOND)
    gang.arrive(2, T0 + 6 * SECOND)
    gang.arrive(3, T0 + 6 * SECOND)
    assert gang.tick(T0 + 7 * SECOND) == REFUSED
    assert gang.decision() == before
    assert lib.gs_gang_next_us(gang.c) == -1


def test_a_timeout_blames_who_never_came_and_who_came_in_part() -> None:
    gang = Gang(nodes=4, timeout_s=5)
    for node in (0, 1, 2):
        gang.hello(node)
    for rank in (0, 1, 2):
        gang.arrive(rank)
    assert gang.tick(T0 + 5 * SECOND) == REFUSED
    assert gang.blamed() == "n[2-4]"
    assert gang.report()["missing_ranks"] == "3-7"


def test_arrivals_are_counted_once() -> None:
    gang = Gang()
    gang.hello(0)
    for _ in range(4):
        gang.arrive(0)
    assert gang.c.arrived_count == 1
    assert gang.hello(0)[0] < 0, "a second hello of the same node"
    assert gang.c.connected_count == 1


@pytest.mark.parametrize(
    "odd", [{"job_id": JOB + 1}, {"step_id": STEP + 1}, {"restart_count": 1}]
)
def test_a_hello_of_another_step_or_run_is_counted_and_ignored(
    odd: dict[str, Any],
) -> None:
    gang = Gang(timeout_s=5)
    assert gang.hello(0, **odd)[0] == -116  # ESTALE
    assert gang.c.stale_count == 1
    assert gang.c.connected_count == 0
    assert gang.tick(T0 + 3600 * SECOND) == WAITING, "T has not begun"
    gang.everybody()
    assert gang.tick() == RELEASED
    assert gang.report()["stale_arrivals"] == 1


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"node_count": 3}, "n2 says it is node 1 of 3 with 2 of 4 tasks"),
        ({"task_count": 5}, "n2 says it is node 1 of 2 with 2 of 5 tasks"),
        ({"ranks": []}, "n2 says it is node 1 of 2 with 0 of 4 tasks"),
        ({"ranks": [1, 2]}, "n2 says it is node 1 of 2 with 2 of 4 tasks"),
        ({"ranks": [2, 99]}, "n2 says it is node 1 of 2 with 2 of 4 tasks"),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["layout", "no layout"])
def test_a_node_that_does_not_fit_the_step_refuses_at_once_and_is_named(
    odd: dict[str, Any], said: str, *, known: bool
) -> None:
    gang = Gang(known=known)
    gang.hello(0)
    code, sentence = gang.hello(1, **odd)
    assert code < 0
    assert said in sentence
    assert "the step has 2 nodes and 4 tasks" in sentence
    assert gang.decision() == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, 1, NOBODY)
    detail = gang.report()["nodes"][1]["detail"]
    assert said in detail


def test_fewer_ranks_than_the_layout_gives_a_node_refuse_too() -> None:
    gang = Gang()
    assert "with 1 of 4 tasks" in gang.hello(1, ranks=[2])[1]
    assert gang.decision()[:4] == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, 1)


def test_a_node_number_beyond_the_step_refuses_without_naming_a_node() -> None:
    gang = Gang()
    assert gang.hello(0, node_index=9)[0] < 0
    assert gang.decision() == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, NOBODY, NOBODY)
    assert gang.blamed() == ""


def test_a_contradicting_hello_after_the_decision_moves_no_blame() -> None:
    gang = Gang(nodes=3)
    gang.hello(0)
    gang.end(0, EXIT, 3)
    before = gang.decision()
    gang.hello(1, node_count=9)
    gang.hello(2, ranks=[0, 1])
    assert gang.decision() == before
    assert gang.blamed() == "n1"


def test_one_rank_given_twice_is_refused_whole() -> None:
    gang = Gang(nodes=1, per_node=4, known=False)
    assert gang.expect(0, [0, 1, 1, 2]) < 0
    assert gang.expect(0, [0] * 4000) < 0
    assert gang.expect(0, [0, 1, 4]) < 0
    assert gang.expect(0, [0, 1, 2, 3]) == 0, "a refused list leaves nothing behind"
    assert gang.expect(0, [0]) < 0, "a node is described once"


def test_ranks_of_one_node_are_not_given_to_another() -> None:
    gang = Gang(nodes=2, per_node=2, known=False)
    assert gang.expect(0, [0, 1]) == 0
    assert gang.expect(1, [3, 1]) < 0
    assert gang.expect(1, [3, 2]) == 0


@pytest.mark.parametrize("rank", [2, 3, 4, NOBODY], ids=str)
def test_a_node_that_reports_a_rank_of_another_is_named_not_the_owner(
    rank: int,
) -> None:
    gang = Gang()
    gang.everybody()
    assert lib.gs_gang_arrive(gang.c, 0, rank, 0, T0) < 0
    assert gang.decision()[:4] == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, 0)
    assert gang.blamed() == "n1"
    assert f"rank {rank}" in gang.report()["nodes"][0]["detail"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [(EXIT, 0), (EXIT, 1), (EXIT, 137), (SIGNAL, signal.SIGSEGV), (SIGNAL, 6)],
)
def test_a_task_that_ends_by_itself_refuses_at_once(kind: int, status: int) -> None:
    gang = Gang()
    gang.hello(0)
    gang.hello(1)
    gang.arrive(3)
    gang.end(3, kind, status, T0 + 1)
    assert gang.tick(T0 + 1) == REFUSED
    assert gang.decision() == (REFUSED, lib.GS_REFUSAL_TASK_ENDED, 75, 1, 3)
    assert gang.blamed() == "n2"


def test_the_first_death_is_the_reason_and_later_ones_are_innocent() -> None:
    gang = Gang(nodes=3)
    gang.everybody()
    gang.end(4, SIGNAL, signal.SIGSEGV, T0 + 1)
    gang.end(0, SIGNAL, signal.SIGABRT, T0 + 2)
    lib.gs_gang_lost(gang.c, 1, b"connection lost", T0 + 3)
    gang.fail_node(1, lib.GS_FAIL_LAUNCH, "too late", T0 + 4)
    assert gang.decision() == (REFUSED, lib.GS_REFUSAL_TASK_ENDED, 75, 2, 4)
    assert gang.blamed() == "n3"
    assert gang.report()["nodes"][1]["phase"] != "connection lost"


def test_deaths_of_foreign_or_unknown_tasks_are_refused() -> None:
    gang = Gang()
    for node, rank in [(0, 2), (0, 4), (2, 0), (NOBODY, 0)]:
        fail = new("gs_fail", node_index=node, rank=rank, kind=EXIT, status=1)
        assert lib.gs_gang_fail(gang.c, fail, T0) < 0
    assert gang.tick() == WAITING


@pytest.mark.parametrize(
    ("kind", "reason", "code"),
    [
        (lib.GS_FAIL_LAUNCH, lib.GS_REFUSAL_LAUNCH, 75),
        (lib.GS_FAIL_CONFIG, lib.GS_REFUSAL_CONFIG, 78),
    ],
)
def test_a_node_that_cannot_start_refuses_with_its_own_words(
    kind: int, reason: int, code: int
) -> None:
    gang = Gang()
    gang.hello(1)
    gang.fail_node(1, kind, "no such program")
    assert gang.decision() == (REFUSED, reason, code, 1, NOBODY)
    assert gang.report()["nodes"][1]["detail"] == "no such program"


def test_a_lost_node_refuses_at_once_and_is_named() -> None:
    gang = Gang()
    gang.hello(0)
    gang.hello(1)
    lib.gs_gang_lost(gang.c, 1, b"connection lost: reset", T0 + 5)
    assert gang.tick(T0 + 5) == REFUSED
    assert gang.decision() == (REFUSED, lib.GS_REFUSAL_NODE_LOST, 75, 1, NOBODY)
    assert gang.blamed() == "n2"
    lib.gs_gang_lost(gang.c, 0, b"and I", T0 + 6)
    assert gang.blamed() == "n2"


@pytest.mark.parametrize(
    ("cancelled", "decision"),
    [
        (False, (REFUSED, lib.GS_REFUSAL_ENDED, 75)),
        (True, (CANCELLED, lib.GS_REFUSAL_NONE, 0)),
    ],
)
def test_slurm_may_end_the_launch(
    decision: tuple[int, int, int], *, cancelled: bool
) -> None:
    gang = Gang()
    lib.gs_gang_end(gang.c, cancelled, T0)
    assert gang.decision()[:3] == decision
    gang.everybody()
    assert gang.tick() == decision[0]


def test_slurm_ending_a_released_step_changes_nothing() -> None:
    gang = Gang()
    gang.everybody()
    gang.tick()
    lib.gs_gang_end(gang.c, True, T0)  # noqa: FBT003 - a C argument
    assert gang.c.outcome == RELEASED


def test_time_that_srun_was_stopped_is_not_counted() -> None:
    gang = Gang(timeout_s=5)
    lib.gs_gang_stretch(gang.c, 100 * SECOND)
    gang.hello(0)
    assert lib.gs_gang_next_us(gang.c) == T0 + 5 * SECOND, "T had not begun"
    lib.gs_gang_stretch(gang.c, 60 * SECOND)
    assert gang.tick(T0 + 65 * SECOND - 1) == WAITING
    assert gang.tick(T0 + 65 * SECOND) == REFUSED


def test_first_and_last_are_by_arrival_whatever_order_they_were_told_in() -> None:
    gang = Gang()
    assert lib.gs_gang_last(gang.c) == NOBODY
    for rank, when in [(2, 30), (0, 20), (3, 10), (1, 25)]:
        gang.arrive(rank, T0 + when)
    assert lib.gs_gang_last(gang.c) == 2
    assert lib.gs_gang_first(gang.c) == 3


def test_an_arrival_from_before_the_hosts_boot_still_is_one() -> None:
    gang = Gang(nodes=1, per_node=1)
    gang.hello(0, 5)
    gang.arrive(0, -4_000_000)
    assert gang.tick(5) == RELEASED
    assert lib.gs_gang_last(gang.c) == 0


@pytest.mark.parametrize(
    ("nodes", "tasks"), [(0, 1), (1, 0), (2**24 + 1, 1), (1, 2**24 + 1)]
)
def test_a_gang_of_nobody_or_of_too_many_is_not_made(nodes: int, tasks: int) -> None:
    assert lib.gs_gang_create(nodes, tasks, SECOND) == ffi.NULL
    lib.gs_gang_destroy(ffi.NULL)
