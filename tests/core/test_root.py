"""The root over real sockets: a good start, refusals, and the way to rank 0's node."""

from __future__ import annotations

import time

import pytest
from core.c import NOBODY, Struct, ffi, lib, new, text
from core.gangs import SECOND, Gang, offer
from core.nodesim import Node, Root

RELEASED, REFUSED = lib.GS_RELEASED, lib.GS_REFUSED
OK, CONNECT = lib.GS_REACH_OK, lib.GS_REACH_CONNECT


def wired(nodes: int = 3, *addresses: str) -> tuple[Root, list[Node]]:
    """All nodes joined and arrived, rank 0's node has made its offer."""
    root = Root(Gang(nodes, wiring=True))
    joined = root.join_all()
    for node in joined:
        node.arrive()
    joined[0].offer(offer(*addresses))
    return root, joined


def go_of(node: Node) -> Struct:
    """Receive a release."""
    body, go = node.await_frame(lib.GS_FRAME_GO), new("gs_go")
    assert lib.gs_go_decode(body, len(body), go, ffi.NULL) == 0
    return go


def abort_of(node: Node) -> tuple[int, str]:
    """Receive a refusal: exit code and word."""
    body, abort = node.await_frame(lib.GS_FRAME_ABORT), new("gs_abort")
    assert lib.gs_abort_decode(body, len(body), abort, ffi.NULL) == 0
    return abort.code, text(abort.text)


def master_addr(root: Root) -> str:
    """What MASTER_ADDR will say."""
    return text(lib.gs_root_master_addr(root.c))


def test_a_good_start_gives_every_node_the_same_go() -> None:
    root, nodes = wired(3, "10.0.0.1")
    for node in nodes:
        probe = node.probe()
        assert (text(probe.address), probe.port) == ("10.0.0.1", 29500)
        node.reach(probe.round)
    assert root.decided()[0] == RELEASED
    told = [go_of(node) for node in nodes]
    assert {(text(go.master_addr), go.master_port) for go in told} == {
        ("10.0.0.1", 29500)
    }
    assert len({go.t0_us for go in told}) == 1
    assert abs(told[0].t0_us / 1e6 - time.time()) < 60


def test_without_wiring_arrivals_are_enough() -> None:
    root = Root(Gang(2))
    for node in root.join_all():
        node.arrive()
    assert root.decided()[0] == RELEASED


def test_what_the_root_learns_of_a_node_is_in_the_gang() -> None:
    root = Root(Gang(1))
    node = root.join(0, wall_us=(time.time_ns() // 1000) + 100 * SECOND)
    assert node.is_known
    known = root.gang.c.nodes[0]
    assert text(known.address) == "127.0.0.1"
    assert known.hello_rtt_us >= 0
    # The node's clock is 100 s ahead, give or take the time of this test.
    assert 80 * SECOND < known.clock_offset_us < 101 * SECOND


def test_an_arrival_counts_from_when_it_happened() -> None:
    root = Root(Gang(1))
    root.join(0).arrive(age_us=3 * SECOND)
    root.decided()
    gang = root.gang.c
    assert gang.decided_us - gang.tasks[0].arrived_us >= 3 * SECOND


def test_a_task_that_ends_refuses_everywhere_with_code_75() -> None:
    root = Root(Gang(3))
    nodes = root.join_all()
    nodes[1].fail(rank=2, kind=lib.GS_FAIL_EXIT, status=3)
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_TASK_ENDED, 75, 1, 2)
    assert [abort_of(node) for node in nodes] == [(75, "task_ended")] * 3


def test_a_configuration_that_cannot_work_ends_with_78() -> None:
    root = Root(Gang(2))
    nodes = root.join_all()
    nodes[0].fail(rank=NOBODY, kind=lib.GS_FAIL_CONFIG, text="MASTER_PORT=x")
    assert root.decided()[:3] == (REFUSED, lib.GS_REFUSAL_CONFIG, 78)
    assert abort_of(nodes[1]) == (78, "configuration")


def test_nodes_of_another_version_are_told_to_install_one() -> None:
    root = Root(Gang(2))
    nodes = [root.join(0), root.join(1, version="9.9")]
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_CONFIG, 78, 1, NOBODY)
    assert abort_of(nodes[1])[0] == 78
    assert text(root.gang.c.nodes[1].text) == (
        "the plugin is 9.9 on n2 and 0.1.0 in srun: install one version everywhere"
    )


@pytest.mark.parametrize("arrived", [False, True], ids=["before", "after arriving"])
def test_a_node_that_closes_before_the_decision_is_named_at_once(
    *, arrived: bool
) -> None:
    root = Root(Gang(3))
    nodes = root.join_all()
    if arrived:
        nodes[1].arrive()
    nodes[1].close()
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_NODE_LOST, 75, 1, NOBODY)
    assert root.gang.blamed() == "n2"
    assert abort_of(nodes[0]) == (75, "node_lost")
    assert text(root.gang.c.nodes[1].text) == "Connection reset by peer"


def test_what_a_node_said_before_it_closed_still_counts() -> None:
    root = Root(Gang(2))
    nodes = root.join_all()
    nodes[1].fail(rank=3, kind=lib.GS_FAIL_SIGNAL, status=11)
    nodes[1].close()
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_TASK_ENDED, 75, 1, 3)


def test_a_node_that_comes_after_the_refusal_is_refused_too() -> None:
    root = Root(Gang(3))
    first, second = root.join(0), root.join(1)
    second.fail(rank=2, kind=lib.GS_FAIL_EXIT, status=1)
    root.decided()
    late = root.node(2)
    late.hello()
    assert abort_of(late) == (75, "task_ended")
    assert abort_of(first) == (75, "task_ended")
    assert not lib.gs_root_all_gone(root.c)
    for node in (first, second, late):
        node.send(lib.GS_FRAME_BYE)
    root.until(lambda: root.events[-1] == lib.GS_ROOT_DONE, "all said goodbye")
    assert lib.gs_root_all_gone(root.c)


def test_slurm_ending_the_launch_from_another_thread_is_heard() -> None:
    root = Root(Gang(2))
    node = root.join(0)
    lib.gs_root_end(root.c, True)  # noqa: FBT003 - a C argument
    assert root.decided()[0] == lib.GS_CANCELLED
    assert abort_of(node) == (143, "cancelled")


def test_a_wake_ends_a_long_step() -> None:
    root = Root(Gang(1))
    lib.gs_root_wake(root.c)
    begun = time.monotonic()
    root.step(10_000)
    assert time.monotonic() - begun < 5


def test_time_that_srun_was_stopped_is_not_counted_against_the_nodes() -> None:
    root = Root(Gang(2, timeout_s=1))
    root.join(0)
    first = root.gang.c.deadline_us
    time.sleep(1.7)  # a Ctrl-Z: nothing of the root runs
    assert root.step() == lib.GS_ROOT_WAITING, "T is over, but srun was not there"
    assert root.gang.c.deadline_us >= first + 1_600_000
    assert root.decided()[:2] == (REFUSED, lib.GS_REFUSAL_TIMEOUT)
    assert root.gang.blamed() == "n[1-2]"


def test_a_stop_before_the_first_hello_does_not_lengthen_t() -> None:
    root = Root(Gang(1, timeout_s=5))
    node = root.node(0)
    node.hello(wall_us=time.time_ns() // 1000)
    time.sleep(1.7)
    root.until(lambda: node.is_known, "the hello is read")
    gang = root.gang.c
    assert gang.deadline_us == gang.first_us + 5 * SECOND
    # Half of the pause at most, as for any slow answer.
    assert abs(gang.nodes[0].clock_offset_us) <= gang.nodes[0].hello_rtt_us


def test_if_one_node_fails_an_address_all_try_the_next() -> None:
    root, nodes = wired(3, "10.0.0.1", "10.1.0.1")
    for node in nodes:
        probe = node.probe()
        node.reach(probe.round, CONNECT if node.index == 2 else OK, detail=113)
    again = [node.probe() for node in nodes]
    assert {text(probe.address) for probe in again} == {"10.1.0.1"}
    for node, probe in zip(nodes, again, strict=True):
        node.reach(probe.round)
    assert root.decided()[0] == RELEASED
    assert (lib.gs_root_candidate(root.c), master_addr(root)) == (1, "10.1.0.1")
    assert text(go_of(nodes[1]).master_addr) == "10.1.0.1"


def test_answers_about_an_address_given_up_are_not_counted() -> None:
    root, nodes = wired(2, "10.0.0.1", "10.1.0.1")
    first = [node.probe() for node in nodes]
    nodes[1].reach(first[1].round, CONNECT, detail=111)
    nodes[0].reach(first[0].round)
    for node in nodes:
        node.probe()
        node.reach(first[0].round)
    root.settle()
    assert root.gang.c.outcome == lib.GS_WAITING
    assert root.gang.c.wired_count == 0


def test_when_no_address_is_left_who_cannot_reach_is_named_and_only_he() -> None:
    root, nodes = wired(3, "10.0.0.1")
    for node in nodes:
        probe = node.probe()
        node.reach(probe.round, CONNECT if node.index == 1 else OK, detail=113)
    decision = root.decided()
    assert decision[:3] == (REFUSED, lib.GS_REFUSAL_UNREACHABLE, 75)
    assert root.gang.blamed(master=lib.gs_root_master(root.c)) == "n2"
    assert abort_of(nodes[0]) == (75, "master_unreachable")


def test_after_a_failed_probe_the_others_get_a_moment_to_answer() -> None:
    root, nodes = wired(3, "10.0.0.1")
    rounds = [node.probe().round for node in nodes]
    nodes[1].reach(rounds[1], CONNECT, detail=113)
    nodes[0].reach(rounds[0])
    root.settle()
    assert root.gang.c.outcome == lib.GS_WAITING
    begun = time.monotonic()
    root.decided()  # node 2 never answers
    assert time.monotonic() - begun < 2 * lib.GS_ROOT_PROBE_US / SECOND
    assert root.gang.blamed(master=lib.gs_root_master(root.c)) == "n[2-3]"


def test_a_node_that_joins_later_is_asked_to_probe_too() -> None:
    root = Root(Gang(2, wiring=True))
    first = root.join(0)
    first.offer(offer("10.0.0.1"))
    assert text(first.probe().address) == "10.0.0.1"
    assert text(root.join(1).probe().address) == "10.0.0.1"


def test_the_users_own_address_is_what_tasks_get() -> None:
    root = Root(Gang(1, wiring=True))
    node = root.join(0)
    node.arrive()
    node.offer(offer("10.0.0.1", export_as="head", user_address=True, must_match=True))
    probe = node.probe()
    assert (text(probe.name), bool(probe.must_match)) == ("head", True)
    node.reach(probe.round)
    root.decided()
    assert text(go_of(node).master_addr) == "head"


@pytest.mark.parametrize("size", [0, 1, 61440, 61441, 300_000])
def test_a_report_arrives_whole_in_pieces(size: int) -> None:
    root = Root(Gang(1))
    node = root.join(0)
    node.arrive()
    root.decided()
    go_of(node)
    report = ("0123456789abcdef" * (size // 16 + 1))[:size].encode()
    lib.gs_root_send_report(root.c, 0, report)
    got = b""
    while piece := node.await_frame(lib.GS_FRAME_REPORT)[4:]:  # behind the node's index
        assert len(piece) <= lib.GS_ROOT_PIECE
        got += piece
    assert got == report


def test_the_report_is_kept_by_rank_0s_node_or_else_by_any() -> None:
    root = Root(Gang(3))
    assert lib.gs_root_keeper(root.c) == NOBODY
    root.join(2)
    assert lib.gs_root_keeper(root.c) == 2
    root.join(0)
    assert lib.gs_root_keeper(root.c) == 0
    lib.gs_root_send_report(root.c, 1, b"nobody is there")


def test_a_large_step_may_connect_at_once_before_any_hello_is_read() -> None:
    root = Root(Gang(300, 1))
    nodes = [Node(root, index) for index in range(300)]  # in the kernel's queue
    for node in nodes:
        _, node.nonce_root = node.receive()
    for node in nodes:
        node.hello()
        node.arrive()
    assert root.decided()[0] == RELEASED
