"""The root against strangers, replays and nodes that lie."""

from __future__ import annotations

import os
import resource
import struct
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from core.c import NOBODY, lib
from core.gangs import Gang, offer
from core.nodesim import Node, Root

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASED, REFUSED = lib.GS_RELEASED, lib.GS_REFUSED
LOST = (REFUSED, lib.GS_REFUSAL_NODE_LOST, 75)


def innocent(root: Root) -> None:
    """Whatever happened, the step still waits and a good start is possible."""
    assert root.gang.c.outcome == lib.GS_WAITING
    for index in range(root.gang.nodes):
        node = root.gang.c.nodes[index]
        assert node.lost_us < 0
        if node.hello_us < 0:
            root.join(index).arrive()
    assert root.decided()[0] == RELEASED


def test_a_hello_without_the_key_is_dropped_and_concerns_nobody() -> None:
    root = Root(Gang(2))
    node = root.node(0)
    node.key = os.urandom(32)
    node.hello()
    node.is_dropped()
    assert root.gang.c.connected_count == 0
    innocent(root)


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n",
        b"\x16\x03\x01" + bytes(60),
        bytes(64),
        b"GSW1" + b"\xff" * 60,
        b"GSW1" + struct.pack(">BBHII", 2, 1, 0, lib.GS_BODY_MAX + 1, 0),
        b"GSW1" + struct.pack(">BBHII", 2, 1, 0, 2**32 - 1, 0) + bytes(100),
    ],
    ids=["http", "tls", "zeros", "ff", "too large", "4 GiB"],
)
def test_noise_is_dropped(noise: bytes) -> None:
    root = Root(Gang(2))
    node = root.node(0)
    node.raw(noise)
    node.is_dropped()
    innocent(root)


@pytest.mark.parametrize(
    "kind",
    [
        lib.GS_FRAME_ARRIVED,
        lib.GS_FRAME_PING,
        lib.GS_FRAME_BYE,
        lib.GS_FRAME_GO,
        lib.GS_FRAME_CHALLENGE,
    ],
)
def test_anything_but_a_hello_comes_first_is_dropped(kind: int) -> None:
    root = Root(Gang(2))
    node = root.node(0)
    node.send(kind, bytes(20))
    node.is_dropped()
    innocent(root)


def test_a_hello_recorded_on_another_connection_is_worth_nothing() -> None:
    root = Root(Gang(2))
    good, thief = root.node(0), root.node(0)
    recorded = good.frame(lib.GS_FRAME_HELLO, good.hello_body())
    thief.raw(recorded)
    thief.is_dropped()
    assert root.gang.c.connected_count == 0
    innocent(root)


def test_the_roots_own_challenge_sent_back_is_worth_nothing() -> None:
    root = Root(Gang(2))
    node = Node(root, 0)
    root.until(node._whole, "the challenge came")  # noqa: SLF001
    node.raw(node.got)
    node.got = b""
    node.is_dropped()
    innocent(root)


@pytest.mark.parametrize("name", ["restart_count", "job_id", "step_id"])
def test_a_hello_of_an_earlier_run_is_counted_and_dropped(name: str) -> None:
    root = Root(Gang(2))
    node = root.node(0)
    node.hello(**{name: 77})
    node.is_dropped()
    assert root.gang.c.stale_count == 1
    innocent(root)


def test_a_second_connection_of_a_node_is_dropped_and_the_first_stays() -> None:
    root = Root(Gang(2))
    first, again = root.join(0), root.node(0)
    again.hello()
    again.is_dropped()
    first.arrive()
    innocent(root)


def test_a_node_that_contradicts_the_layout_is_named() -> None:
    root = Root(Gang(2))
    root.join(0)
    liar = root.node(1)
    liar.hello(node_count=5)
    liar.is_dropped()
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, 1, NOBODY)
    assert root.gang.blamed() == "n2"


def replay(node: Node) -> None:
    """Send one frame twice."""
    frame = node.frame(lib.GS_FRAME_PING)
    node.raw(frame + frame)


def skip_one(node: Node) -> None:
    """Leave a sequence number out."""
    node.raw(node.frame(lib.GS_FRAME_PING, sequence=node.sent + 1))


def flip_a_bit(node: Node) -> None:
    """Change one bit of a sealed frame."""
    frame = bytearray(node.frame(lib.GS_FRAME_PING, b"12345678"))
    frame[lib.GS_HEADER_SIZE] ^= 1
    node.raw(bytes(frame))


def announce_too_much(node: Node) -> None:
    """Announce a body above the limit, sealed well."""
    node.raw(node.frame(lib.GS_FRAME_PING, b"", size=lib.GS_BODY_MAX + 1))


def say_hello_again(node: Node) -> None:
    """Say hello a second time on the same connection."""
    node.send(lib.GS_FRAME_HELLO, node.hello_body())


def claim_foreign_ranks(node: Node) -> None:
    """Tell the arrival of another node's rank."""
    node.arrive(0)


def speak_for_another(node: Node) -> None:
    """Tell another node's failure."""
    node.fail(node_index=0, rank=NOBODY, kind=lib.GS_FAIL_LAUNCH)


def end_a_foreign_task(node: Node) -> None:
    """Tell the end of another node's task."""
    node.fail(rank=0, kind=lib.GS_FAIL_EXIT, status=1)


def offer_without_rank_0(node: Node) -> None:
    """Offer addresses without having rank 0."""
    node.offer(offer("10.6.6.6"))


def offer_for_another(node: Node) -> None:
    """Offer addresses of a node that is not in the step."""
    node.offer(offer("10.6.6.6", node_index=999))


def play_root(node: Node) -> None:
    """Send what only the root sends."""
    node.send(lib.GS_FRAME_GO, bytes(12))


def cut_a_body(node: Node) -> None:
    """Send a body that does not fit its type."""
    node.send(lib.GS_FRAME_ARRIVED, bytes(5))


@pytest.mark.parametrize(
    "misdeed",
    [
        replay,
        skip_one,
        flip_a_bit,
        announce_too_much,
        say_hello_again,
        speak_for_another,
        end_a_foreign_task,
        offer_without_rank_0,
        play_root,
        cut_a_body,
    ],
    ids=lambda misdeed: misdeed.__name__,
)
def test_a_node_that_breaks_the_rules_is_lost_and_it_alone_is_named(
    misdeed: Callable[[Node], None],
) -> None:
    root = Root(Gang(2))
    good, bad = root.join_all()
    good.arrive()
    misdeed(bad)
    assert root.decided() == (*LOST, 1, NOBODY)
    assert root.gang.blamed() == "n2"
    assert good.await_frame(lib.GS_FRAME_ABORT)
    assert not lib.gs_root_master(root.c)


def test_rank_0s_node_cannot_offer_in_the_name_of_another() -> None:
    root = Root(Gang(2, wiring=True))
    bad, _ = root.join_all()
    offer_for_another(bad)
    assert root.decided() == (*LOST, 0, NOBODY)
    assert not lib.gs_root_master(root.c)


def test_a_node_that_claims_anothers_rank_is_named_not_the_owner() -> None:
    root = Root(Gang(2))
    good, bad = root.join_all()
    good.arrive(1)
    claim_foreign_ranks(bad)
    assert root.decided() == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75, 1, NOBODY)
    assert root.gang.blamed() == "n2"


def test_a_second_offer_breaks_the_rules() -> None:
    root = Root(Gang(2, wiring=True))
    first, _ = root.join_all()
    first.offer(offer("10.0.0.1"))
    first.offer(offer("10.6.6.6"))
    assert root.decided() == (*LOST, 0, NOBODY)


def test_a_hello_that_comes_byte_by_byte_is_a_hello() -> None:
    root = Root(Gang(1))
    node = root.node(0)
    body = node.hello_body()
    for byte in node.frame(lib.GS_FRAME_HELLO, body):
        node.raw(bytes([byte]))
        root.step()
    node.sent, node.nonce_node = 1, body[: lib.GS_NONCE_SIZE]
    root.until(lambda: node.is_known, "the hello is complete")
    node.arrive()
    assert root.decided()[0] == RELEASED


def test_many_frames_in_one_piece_are_all_read() -> None:
    root = Root(Gang(1, per_node=8))
    node = root.join(0)
    together = b""
    for rank in range(8):
        together += node.frame(lib.GS_FRAME_PING)
        node.sent += 1
        row = struct.pack(">7I", 0, rank, 0, NOBODY, 0, 0, 0)
        together += node.frame(lib.GS_FRAME_ARRIVED, row)
        node.sent += 1
    node.raw(together)
    assert root.decided()[0] == RELEASED


def test_a_frame_of_the_largest_size_is_read() -> None:
    root = Root(Gang(1))
    node = root.join(0)
    node.send(lib.GS_FRAME_PING, b"x" * lib.GS_BODY_MAX)
    node.arrive()
    assert root.decided()[0] == RELEASED


def test_three_hundred_silent_strangers_keep_no_node_out() -> None:
    root = Root(Gang(2))
    with ExitStack() as peers:
        for _ in range(300):
            peers.enter_context(closing(root.stranger()))
            root.step()
        for _ in range(2):
            peers.enter_context(closing(root.stranger()))
        nodes = [root.join(0), root.join(1)]
        for node in nodes:
            node.arrive()
        assert root.decided()[0] == RELEASED


def test_strangers_are_no_nodes_when_the_end_is_waited_for() -> None:
    root = Root(Gang(1))
    with closing(root.stranger()):
        node = root.join(0)
        node.arrive()
        root.decided()
        node.close()
        root.until(lambda: root.events[-1] == lib.GS_ROOT_DONE, "the only node left")
        assert lib.gs_root_all_gone(root.c)


def test_strangers_that_come_and_go_leave_nothing_behind() -> None:
    root = Root(Gang(1))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count of names
    for _ in range(50):
        root.stranger().close()
        root.settle(2)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    innocent(root)


def test_a_crowd_does_not_drive_out_the_node_that_came_with_it() -> None:
    root = Root(Gang(1))
    node = Node(root, 0)  # they all wait before the root looks for the first time
    for _ in range(600):
        root.stranger()
    kind, node.nonce_root = node.receive()
    assert kind == lib.GS_FRAME_CHALLENGE
    node.hello()
    root.until(lambda: node.is_known, "the node is known")
    node.arrive()
    assert root.decided()[0] == RELEASED


def test_a_stranger_makes_room_when_srun_is_out_of_descriptors() -> None:
    root = Root(Gang(1))
    stranger = root.stranger()
    root.settle(2)
    node = Node(root, 0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(stranger), closing(os.fdopen(os.dup(0))) as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, limits[1]))
        begun = time.monotonic()
        try:
            kind, node.nonce_root = node.receive()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert kind == lib.GS_FRAME_CHALLENGE
    assert time.monotonic() - begun < lib.GS_ROOT_STRANGER_US / 1e6  # not by its age
    node.hello()
    root.until(lambda: node.is_known, "the node is known")
    node.arrive()
    assert root.decided()[0] == RELEASED


@pytest.mark.parametrize("wall_us", [-(2**63), -1, 0, 2**63 - 1])
def test_a_node_whose_clock_is_absurd_is_a_node(wall_us: int) -> None:
    root = Root(Gang(1))
    node = root.join(0, wall_us=wall_us)
    node.arrive()
    assert root.decided()[0] == RELEASED
    assert root.gang.report()["nodes"][0]["name"] == "n1"


@pytest.mark.parametrize("size", [1, lib.GS_HEADER_SIZE - 1, lib.GS_HEADER_SIZE, 60])
def test_a_hello_that_is_cut_short_concerns_nobody(size: int) -> None:
    root = Root(Gang(2))
    node = root.node(0)
    node.raw(node.frame(lib.GS_FRAME_HELLO, node.hello_body())[:size])
    node.close()
    innocent(root)


def test_a_frame_of_another_connection_is_worth_nothing_on_this_one() -> None:
    root = Root(Gang(2))
    good, bad = root.join_all()
    good.arrive()
    # Sealed with the key and of the right number, but with the nonces of the other.
    bad.raw(good.frame(lib.GS_FRAME_PING, sequence=bad.sent))
    assert root.decided() == (*LOST, 1, NOBODY)
    assert root.gang.blamed() == "n2"
