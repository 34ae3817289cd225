"""A real node, the real root, and others that connect to either and mean no good.

The node is a slurmstepd with the plugin; the root runs in this process, and so do the
step's other nodes, which are simulated.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import socket
import struct
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import pytest
from core.c import NOBODY, lib, text
from core.gangs import Gang, Story, offer
from core.nodesim import DEADLINE_S, Node, Root

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugin.fakeslurm import Run, Slurm

NODES = {"n001": "0", "n002": "1", "n003": "2"}
ME_FIRST, ME_SECOND = ("--me", "0"), ("--me", "1")
ASK = b"GSM1"
NOISE = [b"", b"GET / HTTP/1.1\r\n\r\n", b"GSW1" + b"\xff" * 60, b"GSM1" + bytes(90)]


def free_port() -> int:
    with closing(socket.create_server(("", 0))) as server:
        return int(server.getsockname()[1])


def rendezvous(root: Root, first: int = 0) -> dict[str, str]:
    """What srun would tell the nodes."""
    told = f"2:{root.port}:{first}:{first}:0:{root.key.hex()}:on,timeout=20"
    return {"SLURM_GANG_RDZV": told}


def is_known(root: Root, index: int) -> Callable[[], bool]:
    return lambda: bool(root.gang.c.nodes[index].hello_us >= 0)


def told(node: Node, wanted: int) -> bytes:
    """Body of the next frame of a type; whatever comes before is passed over."""
    kind, body = node.receive()
    while kind != wanted:
        kind, body = node.receive()
    return body


class Relay:
    """A step of three nodes of which the first is real and takes in others."""

    def __init__(self, slurm: Slurm) -> None:
        self.root = Root(Gang(3, per_node=1))
        self.port = free_port()
        self.run: Run = slurm.stepd(
            rendezvous(self.root, self.port), *ME_FIRST, nodes=NODES
        )
        self.root.until(is_known(self.root, 0), "the first node is known")
        self.root.until(lambda: self.root.gang.c.arrived_count == 1, "rank 0 waits")

    def innocent(self, *arrived: Node) -> None:
        """Whatever happened, the step still waits and a good start is possible."""
        assert self.root.gang.c.outcome == lib.GS_WAITING
        nodes = [*arrived, self.root.join(2)]
        if not arrived:
            nodes.append(self.root.join(1, self.port))
        for node in nodes:
            node.arrive()
        assert self.root.decided()[0] == lib.GS_RELEASED
        assert told(nodes[-1], lib.GS_FRAME_GO)
        assert self.run.finish() == 0


def test_a_node_starts_through_the_first_one(slurm: Slurm) -> None:
    relay = Relay(slurm)
    relay.innocent()
    assert slurm.ran() == [0]


def test_three_hundred_strangers_keep_nobody_from_the_first_node(slurm: Slurm) -> None:
    relay = Relay(slurm)
    for _ in range(300):
        relay.root.stranger(relay.port)
    relay.innocent()
    assert slurm.ran() == [0]


def test_noise_at_the_first_node_concerns_nobody(slurm: Slurm) -> None:
    relay = Relay(slurm)
    for noise in NOISE:
        relay.root.stranger(relay.port).sendall(noise)
    stranger = relay.root.node(1, relay.port)
    stranger.key = os.urandom(32)
    stranger.hello()
    stranger.is_dropped()
    relay.innocent()


def test_a_relayed_node_cannot_claim_to_be_the_first(slurm: Slurm) -> None:
    relay = Relay(slurm)
    liar = relay.root.node(0, relay.port)
    liar.hello()
    liar.is_dropped()
    relay.innocent()


def test_a_relayed_node_cannot_claim_to_be_another_that_is_there(slurm: Slurm) -> None:
    relay = Relay(slurm)
    good = relay.root.join(1, relay.port)
    liar = relay.root.node(1, relay.port)
    liar.hello()
    liar.is_dropped()
    relay.innocent(good)


def say_hello_again(node: Node) -> None:
    node.send(lib.GS_FRAME_HELLO, node.hello_body())


def be_another(node: Node) -> None:
    node.send(lib.GS_FRAME_HELLO, node.hello_body(node_index=2))


def fail_the_first(node: Node) -> None:
    node.fail(node_index=0, rank=NOBODY, kind=lib.GS_FAIL_LAUNCH)


def end_a_task_of_the_first(node: Node) -> None:
    node.fail(node_index=0, rank=0, kind=lib.GS_FAIL_EXIT, status=1)


def offer_in_the_firsts_name(node: Node) -> None:
    node.offer(offer("10.6.6.6", node_index=0))


def replay(node: Node) -> None:
    frame = node.frame(lib.GS_FRAME_PING)
    node.raw(frame + frame)


def cut_short(node: Node) -> None:
    node.raw(node.frame(lib.GS_FRAME_ARRIVED, bytes(24))[:-1])
    node.close()


def vanish(node: Node) -> None:
    node.close()


@pytest.mark.parametrize(
    "misdeed",
    [
        say_hello_again,
        be_another,
        fail_the_first,
        end_a_task_of_the_first,
        offer_in_the_firsts_name,
        replay,
        cut_short,
        vanish,
    ],
    ids=lambda misdeed: misdeed.__name__,
)
def test_a_relayed_node_that_breaks_the_rules_is_lost_and_it_alone_is_named(
    slurm: Slurm, misdeed: Callable[[Node], None]
) -> None:
    relay = Relay(slurm)
    bad, good = relay.root.join(1, relay.port), relay.root.join(2)
    good.arrive()

    misdeed(bad)

    outcome, _, code, node, _ = relay.root.decided()
    assert (outcome, code, node) == (lib.GS_REFUSED, 75, 1)
    assert relay.root.gang.blamed() == "n2"
    assert relay.run.status(0) == 75 << 8
    assert slurm.ran() == []


@pytest.mark.parametrize("heard", [False, True], ids=["at once", "after its hello"])
def test_a_node_that_was_driven_out_by_strangers_comes_again(
    slurm: Slurm, *, heard: bool
) -> None:
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    root = Root(Gang(1, per_node=1), socket.socket(fileno=os.dup(server.fileno())))
    run = slurm.stepd(rendezvous(root), *ME_FIRST, nodes={"n001": "0"})
    server.setblocking(True)  # noqa: FBT003  socket's own
    server.settimeout(DEADLINE_S)
    with closing(server.accept()[0]) as peer:
        # What the root does with the oldest stranger when it needs room.
        reset = struct.pack("ii", 1, 0)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        peer.settimeout(DEADLINE_S)
        if heard:
            Flood(peer, root.key).meet()
    server.settimeout(0)
    server.close()

    assert root.decided()[0] == lib.GS_RELEASED
    assert run.finish() == 0
    assert slurm.ran() == [0]


def proof(root: Root, address: str, port: int) -> bool:
    """Ask for the proof as a node does: again and again, for a second and a half."""
    nonce = os.urandom(16)
    expected = hmac.new(root.key, b"M" + ASK + nonce, hashlib.sha256).digest()
    for _ in range(15):
        with (
            suppress(ConnectionError),
            closing(socket.create_connection((address, port), 1)) as asking,
        ):
            asking.sendall(ASK + nonce)
            if select.select([asking], [], [], 0.1)[0] and asking.recv(64) == expected:
                return True
    return False


def test_strangers_at_master_port_do_not_keep_it_from_being_proven(
    slurm: Slurm,
) -> None:
    root = Root(Gang(2, per_node=1, wiring=True))
    nodes = {"n001": "0", "n002": "1"}
    run = slurm.stepd(rendezvous(root), *ME_FIRST, nodes=nodes)
    second = root.join(1)
    second.arrive()
    probe = second.probe()
    address = text(probe.address)
    with ExitStack() as peers:
        for noise in NOISE:
            peer = socket.create_connection((address, probe.port), 5)
            peers.enter_context(closing(peer)).sendall(noise)
        for number in range(300):
            peer = socket.create_connection((address, probe.port), 5)
            peers.enter_context(closing(peer))
            if number % 3 == 0:
                peer.sendall(ASK + bytes(7))

        assert proof(root, address, probe.port)
        second.reach(probe.round)
        assert root.decided()[0] == lib.GS_RELEASED
        assert run.finish() == 0
    # Whatever was connected to it: the port is free for the program.
    assert slurm.found(0)["bind"] == 0


@pytest.mark.parametrize(
    "answer",
    [bytes(32), b"\xff" * 32, os.urandom(32), b"HTTP/1.0 400 Bad Request\r\n" * 2],
)
def test_an_address_where_another_answers_is_refused_and_said_so(
    slurm: Slurm, answer: bytes
) -> None:
    root = Root(Gang(3, per_node=1, wiring=True))
    run = slurm.stepd(rendezvous(root), *ME_SECOND, nodes=NODES)
    first, third = root.join(0), root.join(2)
    first.arrive()
    third.arrive()
    root.until(is_known(root, 1), "the node is known")
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        first.offer(offer("127.0.0.1", port=other.getsockname()[1]))
        for node in (first, third):
            node.reach(node.probe().round)
        root.until(lambda: select.select([other], [], [], 0)[0], "the node asks")
        with closing(other.accept()[0]) as peer:
            peer.sendall(answer)
            assert root.decided()[:3] == (
                lib.GS_REFUSED,
                lib.GS_REFUSAL_UNREACHABLE,
                75,
            )
    address = f"127.0.0.1 port {lib.gs_root_master(root.c).port}"
    story = Story(root.gang, master=lib.gs_root_master(root.c))
    assert story.report()["blamed_nodes"] == "n2"
    assert f"reaches another host at {address}" in story.refusal()
    assert run.status(1) == 75 << 8
    assert slurm.ran() == []


def test_a_report_without_end_is_not_kept(slurm: Slurm) -> None:
    root = Root(Gang(1, per_node=1))
    run = slurm.stepd(rendezvous(root), *ME_FIRST, nodes={"n001": "0"})
    assert root.decided()[0] == lib.GS_RELEASED

    # srun is the user's own: what it sends must not fill root's file system.
    lib.gs_root_send_report(root.c, 0, b"x" * (25 << 20))
    root.until(lambda: root.events[-1] == lib.GS_ROOT_DONE, "the node left")

    assert run.finish() == 0
    assert slurm.ran() == [0]
    assert list((slurm.step / "sys").iterdir()) == []


class Flood:
    """A root that sends and never reads, as a changed srun could."""

    def __init__(self, peer: socket.socket, key: bytes) -> None:
        self.peer, self.key, self.sent = peer, key, 0
        self.nonces = bytes(32)

    def send(self, kind: int, body: bytes) -> None:
        head = b"GSW1" + struct.pack(">BBHII", kind, 1, 0, len(body), self.sent)
        seal = hmac.digest(self.key, b"R" + self.nonces + head + body, "sha256")
        self.peer.sendall(head + body + seal)
        self.sent += 1

    def ping(self, count: int) -> None:
        for _ in range(count):
            self.send(lib.GS_FRAME_PING, bytes(lib.GS_BODY_MAX))

    def meet(self) -> None:
        """Challenge the node and take its hello."""
        nonce = os.urandom(16)
        self.send(lib.GS_FRAME_CHALLENGE, nonce)
        hello = b""
        while len(hello) < lib.GS_HEADER_SIZE + 16:
            hello += self.peer.recv(lib.GS_HEADER_SIZE + 16 - len(hello))
        self.nonces = nonce + hello[-16:]


def test_a_root_that_never_reads_does_not_fill_the_nodes_memory(slurm: Slurm) -> None:
    key = os.urandom(32)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(DEADLINE_S)
        told = f"2:{server.getsockname()[1]}:0:0:0:{key.hex()}:on,timeout=20"
        run = slurm.stepd({"SLURM_GANG_RDZV": told}, *ME_FIRST, nodes={"n001": "0"})
        with closing(server.accept()[0]) as peer:
            peer.settimeout(DEADLINE_S)
            flood = Flood(peer, key)
            flood.meet()
            with pytest.raises(ConnectionError):
                flood.ping(1000)  # 65 MB, each to be echoed

    assert run.status(0) == 75 << 8
    assert run.finish() == 0
    assert slurm.ran() == []
