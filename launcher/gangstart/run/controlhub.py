"""Rank 0's end of the lines between ranks while the program runs: control.py."""

from __future__ import annotations

import contextlib
import time

from gangstart.errors import GangstartError
from gangstart.record import plain
from gangstart.run.control import CONNECT_S, KILLED, First, say
from gangstart.run.link import Link, LinkBrokenError
from gangstart.run.meet import accepted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from gangstart.run.startup import Released


class Seat:
    """A rank as the hub sees it; before its first word nobody knows who it is."""

    def __init__(self, link: Link) -> None:
        """Somebody has come by this link."""
        self.link, self.rank, self.node, self.ended = link, -1, "", False


class Hub:
    """Rank 0: hears every rank, and tells all who failed first."""

    def __init__(self, released: Released, listening: socket.socket) -> None:
        """Listen for the others, on a socket that was opened before the release."""
        self.first: First | None = None
        self._released = released
        self._listening: socket.socket | None = listening
        listening.setblocking(False)  # noqa: FBT003 - the method's own signature
        self._seats: list[Seat] = []
        self._came: set[int] = {0}
        self._until = time.monotonic() + CONNECT_S
        self._own_end = False

    def sockets(self) -> list[socket.socket]:
        """The listening one and every rank's."""
        listening = [self._listening] if self._listening is not None else []
        return [*listening, *(seat.link.peer for seat in self._seats)]

    def poll(self) -> None:
        """Accept, hear, and find who failed first."""
        if self._listening is not None:
            self._accept(self._listening)
        for seat in list(self._seats):
            self._attend(seat)

    def _accept(self, listening: socket.socket) -> None:
        try:
            for peer in accepted(listening):
                with contextlib.suppress(LinkBrokenError):  # a stranger
                    self._seats.append(Seat(Link(peer, self._released.key, hub=True)))
        except GangstartError as error:
            # Who waits hears it from the kernel, and says that it has no line.
            listening.close()
            self._listening = None
            say(
                f"gang-start: warning: {error.message}: if one of the ranks that are "
                "left fails, only the launcher ends the others\n"
            )

    def _attend(self, seat: Seat) -> None:
        try:
            for message in seat.link.receive():
                self._hear(seat, message)
        except LinkBrokenError:
            self._lose(seat)

    def _hear(self, seat: Seat, message: dict[str, Any]) -> None:
        if "rank" in message:
            seat.rank, seat.node = int(message["rank"]), str(message["node"])
            self._came.add(seat.rank)
            self._tell(seat)
        if "status" in message:
            seat.ended = True
            if message["status"]:
                how = str(message["how"])
                self._fail(First(seat.rank, seat.node, int(message["status"]), how))

    def _lose(self, seat: Seat) -> None:
        self._seats.remove(seat)
        seat.link.close()
        if seat.rank >= 0 and not seat.ended:
            how = "its gangstart run was killed, or its node is gone"
            self._fail(First(seat.rank, seat.node, KILLED, how))

    def _fail(self, first: First) -> None:
        if self.first is None:
            self.first = first
            for seat in list(self._seats):
                self._tell(seat)

    def _tell(self, seat: Seat) -> None:
        if self.first is not None:
            with contextlib.suppress(LinkBrokenError):  # it has ended by itself
                seat.link.send({"first": plain(self.first)})

    def ended(self, status: int, how: str) -> None:
        """Rank 0's own program has ended."""
        self._own_end = True
        if status:
            self._fail(First(0, self._released.node, status, how))

    def over(self) -> bool:
        """Whether every rank has ended, or never came in the time for it."""
        late = time.monotonic() > self._until
        everybody = len(self._came) == self._released.world or late
        named = [seat for seat in self._seats if seat.rank >= 0]
        return self._own_end and everybody and not named

    def close(self) -> None:
        """Hang up on all."""
        for seat in self._seats:
            seat.link.close()
        if self._listening is not None:
            self._listening.close()
