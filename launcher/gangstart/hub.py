"""Rank 0's side of the barriers: a thread that hears every rank and tells all at once.

It listens on an address of this node and takes nobody seriously who has not the step's
key: strangers are bounded in number and time.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gangstart.core import PortRules, port_candidates
from gangstart.gather import Gather
from gangstart.iface import seal
from gangstart.run.link import Link, LinkBrokenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangstart.gather import News
    from gangstart.stepkey import StepKey

PORTS_TRIED = 8
STRANGERS_MAX = 256
STRANGER_S = 5.0
SLICE_S = 1.0
FULL_S = 0.1
BACKLOG = 4096


def ports(key: StepKey) -> list[int]:
    """Where rank 0 may listen, best first: the same list wherever the key is known."""
    where = seal(key.key, b"gangstart meet ports")
    seed = int.from_bytes(where[:4], "big"), int.from_bytes(where[4:8], "big")
    rules = PortRules(allowed=[key.ports] if key.ports[1] else ())
    wanted = min(PORTS_TRIED, key.ports[1] - key.ports[0] + 1 if key.ports[1] else 8)
    found = port_candidates(rules, *seed)
    return [next(found) for _ in range(wanted)]


def listen(address: str, key: StepKey) -> socket.socket:
    """Listen on the first port that is free; raises OSError when none is."""
    failed = OSError("no port may be used")
    for host in (address, ""):  # "" where the address is no own one of this node
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for port in ports(key):
            try:
                made = socket.create_server(
                    (host, port), family=family, backlog=BACKLOG
                )
                made.setblocking(False)  # noqa: FBT003 - the method's own signature
            except OSError as error:  # noqa: PERF203 - the next port
                failed = error
            else:
                return made
    raise failed


def short(text: object, most: int) -> str:
    """Text of a rank as it fits a frame: ASCII, and not too much of it."""
    return str(text).encode("ascii", "replace").decode()[:most]


@dataclass
class Seat:
    """A connection; ``rank`` is known from its first call of a barrier on."""

    link: Link
    since: float
    greeted: bool = False
    rank: int = -1


class Hub:
    """The thread and what it keeps."""

    def __init__(
        self,
        listening: socket.socket,
        key: StepKey,
        nodes: Mapping[int, str],
        world: int,
    ) -> None:
        """Start listening at once; the thread ends with the process."""
        self._listening, self._key = listening, key
        self._gather = Gather(world, {r: short(n, 63) for r, n in nodes.items()})
        self._seats: dict[int, Seat] = {}  # by descriptor
        self._ranks: dict[int, Seat] = {}
        self._sweep = 0.0
        self._select = selectors.DefaultSelector()
        self._select.register(listening, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._serve, name="gangstart-barrier", daemon=True
        )
        self._thread.start()

    def forget(self) -> None:
        """In a forked child: give up what is the parent's, without a word."""
        self._select.close()
        for one in (
            self._listening,
            *(seat.link.peer for seat in self._seats.values()),
        ):
            os.close(one.detach())

    def _serve(self) -> None:
        while True:
            for event, _ in self._select.select(SLICE_S):
                if event.fd == self._listening.fileno():
                    self._accept()
                elif event.fd in self._seats:
                    self._attend(self._seats[event.fd])
            self._drop_strangers()

    def _accept(self) -> None:
        try:
            peer, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors: not at full speed until there are some
            time.sleep(FULL_S)
            return
        try:
            link = Link(peer, self._key.key, hub=True)
        except (LinkBrokenError, OSError):
            peer.close()
            return
        self._seats[peer.fileno()] = Seat(link, time.monotonic())
        self._select.register(peer, selectors.EVENT_READ)

    def _drop_strangers(self) -> None:
        if time.monotonic() < self._sweep:
            return
        self._sweep = time.monotonic() + SLICE_S
        old = [seat for seat in self._seats.values() if not seat.greeted]
        late = time.monotonic() - STRANGER_S
        for place, seat in enumerate(old):
            if seat.since < late or place < len(old) - STRANGERS_MAX:
                self._lose(seat)

    def _attend(self, seat: Seat) -> None:
        try:
            for message in seat.link.receive():
                self._hear(seat, message)
        except (LinkBrokenError, ValueError, KeyError, TypeError):
            self._lose(seat)

    def _hear(self, seat: Seat, message: dict[str, Any]) -> None:
        kind = message["k"]
        if kind == "hello":
            seat.greeted = True
            seat.link.send({"k": "welcome"})
        elif kind == "come":
            self._come(seat, message)
        elif kind == "withdraw" and seat.rank >= 0:
            why = short(message["why"], 100)
            self._tell(self._gather.withdraw(seat.rank, int(message["number"]), why))

    def _come(self, seat: Seat, message: dict[str, Any]) -> None:
        rank, number = int(message["rank"]), int(message["number"])
        there = self._ranks.get(rank)
        why, world = "", self._gather.world
        if message["world"] != world or not 0 <= rank < world:
            why = f"it is of a world of {message['world']}, rank 0 of {world}"
        elif there not in (None, seat) or seat.rank not in (-1, rank):
            why = "another process of this rank is in the barriers already"
        if why:
            said = {"number": number, "kind": "double", "text": f"rank {rank}: {why}"}
            seat.link.send({"k": "outcome", **said})
            return
        seat.rank = rank
        self._ranks[rank] = seat
        self._gather.nodes[rank] = short(message["node"], 63)
        name = short(message["name"], 64)
        self._tell(self._gather.arrive(rank, number, name, time.monotonic()))

    def _tell(self, news: News) -> None:
        for ranks, outcome in news:
            said = {"k": "outcome", **asdict(outcome)}
            for seat in [self._ranks[rank] for rank in ranks if rank in self._ranks]:
                with contextlib.suppress(LinkBrokenError):  # its end is read soon
                    seat.link.send(said)

    def _lose(self, seat: Seat) -> None:
        fd = seat.link.peer.fileno()
        self._select.unregister(seat.link.peer)
        self._seats.pop(fd, None)
        seat.link.close()
        if seat.rank >= 0:
            self._ranks.pop(seat.rank, None)
            self._tell(self._gather.gone(seat.rank, self._ranks))
