"""A cancel is not a failed start, and one killed task is not a cancel.

The core sees only deaths by signal; whether the siblings live tells the two apart.
"""

from __future__ import annotations

import signal

import pytest
from core.c import NOBODY, lib
from core.gangs import SECOND, T0, Gang

REFUSED, CANCELLED, WAITING = lib.GS_REFUSED, lib.GS_CANCELLED, lib.GS_WAITING
KILLED, ASKED = lib.GS_FAIL_SIGNAL, lib.GS_FAIL_ASKED
SETTLE: int = getattr(lib, "GS_SETTLE_US", 0)
ENDED = (REFUSED, lib.GS_REFUSAL_TASK_ENDED, 75)


def ready(nodes: int = 2, per_node: int = 2) -> Gang:
    """Everybody has connected, half of the tasks have arrived."""
    gang = Gang(nodes, per_node)
    for node in range(nodes):
        gang.hello(node)
        gang.arrive(node * per_node)
    return gang


def end_node(gang: Gang, node: int, kind: int, number: int, now: int = T0) -> None:
    """All tasks of a node end by one signal, told one by one."""
    for rank in gang.ranks(node):
        gang.end(rank, kind, number, now, siblings=0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_one_task_killed_while_its_siblings_live_refuses_at_once(number: int) -> None:
    gang = ready()
    gang.end(3, KILLED, number, T0 + 1, siblings=1)
    assert gang.tick(T0 + 1) == REFUSED
    assert gang.decision() == (*ENDED, 1, 3)
    assert gang.blamed() == "n2"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_tasks_that_end_on_a_signal_they_were_sent_are_a_cancel(number: int) -> None:
    gang = ready()
    end_node(gang, 1, ASKED, number)
    assert gang.tick(T0) == CANCELLED
    assert gang.decision() == (CANCELLED, lib.GS_REFUSAL_NONE, 0, NOBODY, NOBODY)


def test_two_nodes_killed_whole_are_a_cancel() -> None:
    gang = ready(nodes=3)
    end_node(gang, 0, KILLED, signal.SIGKILL, T0)
    assert gang.tick(T0) == WAITING
    end_node(gang, 2, KILLED, signal.SIGKILL, T0 + SETTLE - 1)
    assert gang.tick(T0 + SETTLE - 1) == CANCELLED


def test_the_only_node_killed_whole_is_a_cancel_at_once() -> None:
    gang = ready(nodes=1)
    end_node(gang, 0, KILLED, signal.SIGKILL)
    assert gang.tick(T0) == CANCELLED


@pytest.mark.parametrize("per_node", [1, 2])
def test_one_node_of_several_killed_whole_is_a_refusal_once_nobody_followed(
    per_node: int,
) -> None:
    gang = ready(nodes=3, per_node=per_node)
    end_node(gang, 1, KILLED, signal.SIGKILL, T0 + 7)
    assert gang.tick(T0 + 7) == WAITING
    assert lib.gs_gang_next_us(gang.c) == T0 + 7 + SETTLE
    assert gang.tick(T0 + 7 + SETTLE - 1) == WAITING
    assert gang.tick(T0 + 7 + SETTLE) == REFUSED
    assert gang.decision() == (*ENDED, 1, per_node)
    assert gang.blamed() == "n2"


def test_a_crash_during_the_wait_is_the_reason_at_once() -> None:
    gang = ready()
    end_node(gang, 1, KILLED, signal.SIGKILL)
    gang.end(0, KILLED, signal.SIGSEGV, T0 + 5, siblings=1)
    assert gang.tick(T0 + 5) == REFUSED
    assert gang.decision() == (*ENDED, 0, 0)


def test_a_connection_that_breaks_during_the_wait_is_no_reason() -> None:
    gang = ready(nodes=3)
    end_node(gang, 1, KILLED, signal.SIGKILL)
    lib.gs_gang_lost(gang.c, 1, b"connection lost", T0 + 3)
    assert gang.tick(T0 + 3) == WAITING
    end_node(gang, 2, KILLED, signal.SIGKILL, T0 + 9)
    assert gang.tick(T0 + 9) == CANCELLED


def test_the_time_limit_waits_for_the_verdict_on_a_death() -> None:
    gang = ready(nodes=3)
    late = T0 + 60 * SECOND - 1
    end_node(gang, 1, KILLED, signal.SIGKILL, late)
    assert gang.tick(late + 1) == WAITING
    assert gang.tick(late + SETTLE) == REFUSED
    assert gang.decision()[:3] == ENDED


def test_killed_tasks_of_one_node_told_twice_are_one_node() -> None:
    gang = ready(nodes=3)
    for _ in range(3):
        end_node(gang, 1, KILLED, signal.SIGKILL)
    assert gang.tick(T0) == WAITING


def test_a_signal_nobody_sends_to_a_step_is_a_crash_even_of_a_whole_node() -> None:
    gang = ready()
    gang.end(2, KILLED, signal.SIGSEGV, T0, siblings=0)
    assert gang.tick(T0) == REFUSED
