"""Simulated nodes that speak the wire protocol to the real root over loopback.

Everything runs in one thread: the root is stepped until what a test waits for has
happened, or a deadline is over. Bodies come from the core's own encoders, seals from
Python's HMAC.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import socket
import struct
import time
import weakref
from typing import TYPE_CHECKING

from core.c import Struct, ffi, lib, new
from core.gangs import JOB, STEP, Gang
from core.messages import finish

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "0.1.0"
DEADLINE_S = 20.0
SEAL = 32


def close_all(root: Struct, gang: Gang, sockets: list[socket.socket]) -> None:
    """Close what is open and end the root, while its gang is still there."""
    for one in sockets:
        one.close()
    lib.gs_root_destroy(root)
    del gang


class Root:
    """The deciding side, with its gang, listening on loopback."""

    def __init__(self, gang: Gang, listening: socket.socket | None = None) -> None:
        """Listen on any port, or take over a socket that listens already."""
        self.gang, self.key = gang, os.urandom(lib.GS_KEY_SIZE)
        listening = listening or socket.create_server(("127.0.0.1", 0), backlog=1024)
        with listening as server:
            server.settimeout(0)
            self.port: int = server.getsockname()[1]
            fd = os.dup(server.fileno())
        error = new("gs_error")
        made = lib.gs_root_create(gang.c, self.key, fd, VERSION.encode(), error)
        assert made != ffi.NULL, ffi.string(error.text)
        self.c = made
        # The gang must outlive the root, and the sockets are closed whatever a test
        # left open.
        self.sockets: list[socket.socket] = []
        weakref.finalize(self, close_all, made, gang, self.sockets)
        self.events: list[int] = []

    def step(self, wait_ms: int = 0) -> int:
        """One step; what it returned is remembered."""
        event: int = lib.gs_root_step(self.c, wait_ms)
        self.events.append(event)
        return event

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Step until something has happened."""
        end = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < end, f"waited in vain until {what}"
            self.step(5)

    def settle(self, rounds: int = 5) -> None:
        """Step until nothing has been ready for some rounds."""
        for _ in range(rounds):
            self.step(1)

    def decided(self) -> tuple[int, int, int, int, int]:
        """Step until the decision; what it is."""
        self.until(lambda: self.gang.c.outcome != lib.GS_WAITING, "a decision")
        self.until(lambda: lib.GS_ROOT_DECIDED in self.events, "it was told")
        return self.gang.decision()

    def node(self, index: int, port: int = 0) -> Node:
        """Connect a node and give it the challenge, without a hello."""
        node = Node(self, index, port)
        kind, body = node.receive()
        assert (kind, len(body)) == (lib.GS_FRAME_CHALLENGE, lib.GS_NONCE_SIZE)
        node.nonce_root = body
        return node

    def join(self, index: int, port: int = 0, **odd: object) -> Node:
        """Connect a node and let it say a hello, with fields that may be odd."""
        node = self.node(index, port)
        node.hello(**odd)
        self.until(lambda: node.is_known, f"node {index} is known")
        return node

    def join_all(self) -> list[Node]:
        """Connect all nodes."""
        return [self.join(index) for index in range(self.gang.nodes)]

    def stranger(self, port: int = 0) -> socket.socket:
        """Connect, here or to another port, and say nothing."""
        place = ("127.0.0.1", port or self.port)
        peer = socket.create_connection(place, timeout=DEADLINE_S)
        self.sockets.append(peer)
        return peer


class Node:
    """One simulated node and its connection."""

    def __init__(self, root: Root, index: int, port: int = 0) -> None:
        """Connect, to the root or to a port at which another node relays."""
        self.root, self.index, self.key = root, index, root.key
        self.socket = root.stranger(port)
        self.nonce_root = self.nonce_node = bytes(lib.GS_NONCE_SIZE)
        self.sent = self.received = 0
        self.got = b""
        self.ended = False

    @property
    def is_known(self) -> bool:
        """Whether the root has taken the hello."""
        return bool(self.root.gang.c.nodes[self.index].hello_us >= 0)

    def seal(self, direction: bytes, frame: bytes) -> bytes:
        """HMAC over direction, both nonces and the frame."""
        head = direction + self.nonce_root + self.nonce_node
        return hmac.new(self.key, head + frame, hashlib.sha256).digest()

    def frame(self, kind: int, body: bytes = b"", **odd: int) -> bytes:
        """Sealed frame, with header fields that may be odd."""
        size, sequence = odd.get("size", len(body)), odd.get("sequence", self.sent)
        header = b"GSW1" + struct.pack(">BBHII", kind, 1, 0, size, sequence)
        return header + body + self.seal(b"N", header + body)

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def send(self, kind: int, body: bytes = b"") -> None:
        """Send the next frame."""
        self.raw(self.frame(kind, body))
        self.sent += 1

    def hello_body(self, **odd: object) -> bytes:
        """Body of this node's hello."""
        gang = self.root.gang
        ranks = gang.ranks(self.index)
        fields: dict[str, object] = {
            "nonce": os.urandom(lib.GS_NONCE_SIZE),
            "job_id": JOB,
            "step_id": STEP,
            "node_index": self.index,
            "node_count": gang.nodes,
            "task_count": gang.nodes * gang.per_node,
            "node_name": f"n{self.index + 1}",
            "version": VERSION,
            "rank_count": len(ranks),
            "wall_us": time.time_ns() // 1000,
        }
        hello = new("gs_hello", **(fields | odd))
        return finish(lib.gs_hello_encode, hello, ffi.new("uint32_t[]", ranks))

    def hello(self, **odd: object) -> None:
        """Say hello; from then on its nonce is part of every seal."""
        body = self.hello_body(**odd)
        self.send(lib.GS_FRAME_HELLO, body)
        self.nonce_node = body[: lib.GS_NONCE_SIZE]

    def arrive(self, *ranks: int, age_us: int = 0, claim: int = 0) -> None:
        """Tell that ranks have arrived; without any, all of the node's."""
        told = ranks or self.root.gang.ranks(self.index)
        rows = [
            {"rank": r, "age_us": age_us, "visible": lib.GS_NO_RANK, "claim": claim}
            for r in told
        ]
        arrivals = ffi.new("struct gs_arrival[]", rows)
        self.send(
            lib.GS_FRAME_ARRIVED,
            finish(lib.gs_arrivals_encode, self.index, arrivals, len(rows)),
        )

    def fail(self, **fields: object) -> None:
        """Tell that a task or this node cannot start."""
        fail = new("gs_fail", **({"node_index": self.index} | fields))
        self.send(lib.GS_FRAME_FAIL, finish(lib.gs_fail_encode, fail))

    def offer(self, master: Struct) -> None:
        """Offer addresses as rank 0's node."""
        self.send(lib.GS_FRAME_MASTER, finish(lib.gs_master_encode, master))

    def reach(self, round_: int, result: int = 0, **fields: object) -> None:
        """Answer a probe."""
        known: dict[str, object] = {
            "node_index": self.index,
            "round": round_,
            "result": result,
        }
        reach = new("gs_reach", **(known | fields))
        self.send(lib.GS_FRAME_REACH, finish(lib.gs_reach_encode, reach))

    def probe(self) -> Struct:
        """Receive frames up to a probe."""
        body = self.await_frame(lib.GS_FRAME_PROBE)
        probe = new("gs_probe")
        assert lib.gs_probe_decode(body, len(body), probe, ffi.NULL) == 0
        return probe

    def await_frame(self, wanted: int) -> bytes:
        """Body of the next frame of a type; pings are passed over, others are not."""
        while True:
            kind, body = self.receive()
            if kind == wanted:
                return body
            assert kind == lib.GS_FRAME_PING, f"frame {kind} instead of {wanted}"

    def receive(self) -> tuple[int, bytes]:
        """Next frame, its seal and sequence checked."""
        self.root.until(lambda: self._whole() or self.ended, "a frame came")
        assert not self.ended, "the root closed the connection"
        size = struct.unpack(">I", self.got[8:12])[0]
        end = lib.GS_HEADER_SIZE + size
        frame, seal = self.got[:end], self.got[end : end + SEAL]
        self.got = self.got[end + SEAL :]
        assert seal == self.seal(b"R", frame)
        assert struct.unpack(">I", frame[12:16])[0] == self.received
        self.received += 1
        return frame[4], frame[lib.GS_HEADER_SIZE :]

    def _whole(self) -> bool:
        """Read what is there; whether a frame is complete."""
        while select.select([self.socket], [], [], 0)[0]:
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                self.ended = not self._complete()
                break
            self.got += more
        return self._complete()

    def _complete(self) -> bool:
        if len(self.got) < lib.GS_HEADER_SIZE:
            return False
        size = struct.unpack(">I", self.got[8:12])[0]
        return bool(len(self.got) >= lib.GS_HEADER_SIZE + size + SEAL)

    def is_dropped(self) -> None:
        """Wait until the root has closed the connection."""

        def gone() -> bool:
            self._whole()
            while self._complete() and not self.ended:
                self.receive()
            return self.ended

        self.root.until(gone, "the root dropped the connection")

    def close(self) -> None:
        """Close the connection, as a node does that goes away."""
        self.socket.close()
