"""How ranks hear of a failure once MPI is finalized: every rank is linked to rank 0.

Why not the launcher's own kill alone: mpiexec of MPICH and srun without -K let the
others run when a rank fails, and none names the one that failed first. So the ranks
tell rank 0, and rank 0 tells all; the launcher's kill then only comes on top.
"""

from __future__ import annotations

import contextlib
import os
import select
import time

from gangstart.record import Record
from gangstart.run.link import Link, LinkBrokenError, connected

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Protocol

    from gangstart.run.startup import Released

    class Control(Protocol):
        """A rank's line to the others while the program runs. Nothing here blocks."""

        first: First | None

        def sockets(self) -> list[socket.socket]:
            """What to wait for."""

        def poll(self) -> None:
            """Take what has come."""

        def ended(self, status: int, how: str) -> None:
            """Tell that this rank's program has ended."""

        def over(self) -> bool:
            """Whether this rank may end: nobody needs it, or everybody knows."""

        def close(self) -> None:
            """Hang up."""


CONNECT_S = 10.0
SLICE_S = 0.25
KILLED = 137
STDERR = 2


class First(Record):
    """The rank that failed first; status is the exit code that everybody ends with."""

    rank: int
    node: str
    status: int
    how: str

    def sentence(self) -> str:
        """One line without its end; node is empty where nobody could say it."""
        where = f" on {self.node}" if self.node else ""
        return f"rank {self.rank}{where} failed first: {self.how}"


class NoControl:
    """A world of one, or one without a line: only its own end counts."""

    def __init__(self) -> None:
        """Know of nothing."""
        self.first: First | None = None

    def sockets(self) -> list[socket.socket]:
        """None."""
        return []

    def poll(self) -> None:
        """Nothing comes."""

    def ended(self, status: int, how: str) -> None:
        """Nobody to tell."""

    def over(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing to hang up."""


class Spoke:
    """Every other rank: linked to rank 0."""

    def __init__(self, released: Released) -> None:
        """Connect; raises OSError or LinkBrokenError if rank 0 cannot be reached."""
        self.first: First | None = None
        self._lost = self._told = self._good = False
        peer = connected(*released.control, CONNECT_S)
        self._link = Link(peer, released.key, hub=False)
        self._link.send({"rank": released.rank, "node": released.node})
        self._introduce(time.monotonic() + CONNECT_S)

    def _introduce(self, until: float) -> None:
        """Wait until rank 0 has our name, so that it misses us from now on."""
        while not self._link.is_flushed:
            left = until - time.monotonic()
            if left <= 0:
                raise LinkBrokenError("no answer in time")
            select.select([self._link.peer], [], [], left)
            self._link.receive()

    def sockets(self) -> list[socket.socket]:
        """The one to rank 0, while it lives."""
        return [] if self._lost else [self._link.peer]

    def poll(self) -> None:
        """Hear who failed; rank 0 hanging up early is a failure of rank 0."""
        if self._lost:
            return
        try:
            for message in self._link.receive():
                if "first" in message:
                    self.first = First(**message["first"])
        except LinkBrokenError:
            self._lost = True
            if self.first is None and not self._told:
                how = "it was killed, or its node is gone"
                self.first = First(0, "", KILLED, how)

    def ended(self, status: int, how: str) -> None:
        """Tell rank 0."""
        self._told = True
        try:
            self._link.send({"status": status, "how": how})
        except LinkBrokenError:
            self._lost = True
        self._good = status == 0

    def over(self) -> bool:
        """A good end needs no answer; a bad one is over when rank 0 knows of it."""
        heard = self._link.is_flushed if self._good else self.first is not None
        return self._told and (heard or self._lost)

    def close(self) -> None:
        """Hang up."""
        self._link.close()


def settle(control: Control, seconds: float) -> None:
    """Let the others come and hear how this rank has ended, up to a time."""
    until = time.monotonic() + seconds
    while not control.over() and (left := until - time.monotonic()) > 0:
        waiting = select.poll()
        for peer in control.sockets():
            waiting.register(peer, select.POLLIN)
        waiting.poll(min(left, SLICE_S) * 1000)
        control.poll()


def connect(released: Released) -> tuple[Control, str]:
    """This rank's line to the others, and a warning if there is none."""
    if released.world == 1:
        if released.listening is not None:
            released.listening.close()
        return NoControl(), ""
    if released.listening is not None:
        from gangstart.run.controlhub import Hub  # noqa: PLC0415 - rank 0 alone

        return Hub(released, released.listening), ""
    try:
        return Spoke(released), ""
    except (OSError, LinkBrokenError) as error:
        address, port = released.control
        return NoControl(), (
            f"gang-start: warning: rank {released.rank} on {released.node} cannot "
            f"reach rank 0 at {address} port {port} ({error}): if a rank fails, only "
            "the launcher ends the others\n"
        )


def say(text: str) -> None:
    """One write, so that ranks do not mix in a line."""
    with contextlib.suppress(OSError):  # nobody reads it any more
        os.write(STDERR, text.encode(errors="replace"))
