"""How ranks talk to each other before the start: small messages that never block.

``MpiWorld`` is mpi4py, ``SoloWorld`` a world of one without MPI; tests have their own.
"""

from __future__ import annotations

import json
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from mpi4py.MPI import Intracomm, Request

    Message = dict[str, Any]

    class World(Protocol):
        """The ranks of one start, by MPI's numbers."""

        rank: int
        size: int

        def send(self, to: int, message: Message) -> None:
            """Start sending; returns at once."""

        def poll(self) -> list[tuple[int, Message]]:
            """What has come, with who sent it; returns at once."""

        def busy(self) -> bool:
            """Whether messages are still under way."""

        def leave(self) -> None:
            """End it in good order; every rank does."""


TAG = 4711


class SoloWorld:
    """One rank that talks to itself."""

    def __init__(self) -> None:
        """Be alone."""
        self.rank, self.size = 0, 1
        self._inbox: list[Message] = []

    def send(self, to: int, message: Message) -> None:  # noqa: ARG002 - there is only one
        """Keep it for the next poll."""
        self._inbox.append(message)

    def poll(self) -> list[tuple[int, Message]]:
        """Take what was kept."""
        taken, self._inbox = self._inbox, []
        return [(0, message) for message in taken]

    def busy(self) -> bool:
        """Never."""
        return False

    def leave(self) -> None:
        """Nothing to end."""


def library() -> str:
    """Load the MPI library without initialising it: its name and release.

    Raises ImportError or RuntimeError where there is none.
    """
    import mpi4py  # noqa: PLC0415 - an extra, and loads the MPI library

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    from mpi4py import MPI  # noqa: PLC0415 - as above

    name, release = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, release))}"


class MpiWorld:
    """COMM_WORLD; make it in the thread that uses it, it calls MPI_Init."""

    def __init__(self) -> None:
        """Initialise MPI, after ``library``; may block until other ranks come."""
        from mpi4py import MPI  # noqa: PLC0415 - an extra

        with warnings.catch_warnings():
            # mpi4py guesses at a wrong launcher; judge.py knows and says it once.
            warnings.simplefilter("ignore", RuntimeWarning)
            MPI.Init_thread(MPI.THREAD_FUNNELED)
        self._mpi = MPI
        self._comm: Intracomm = MPI.COMM_WORLD
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self._pending: list[tuple[Request, bytearray]] = []
        self._own: list[Message] = []

    def send(self, to: int, message: Message) -> None:
        """Start sending; the buffer lives until MPI is done with it."""
        if to == self.rank:
            self._own.append(json.loads(json.dumps(message)))
            return
        data = bytearray(json.dumps(message).encode())
        request = self._comm.Isend([data, self._mpi.BYTE], dest=to, tag=TAG)
        self._pending.append((request, data))

    def poll(self) -> list[tuple[int, Message]]:
        """Take what has come; let MPI make progress."""
        self._pending = [one for one in self._pending if not one[0].Test()]
        came = [(self.rank, message) for message in self._own]
        self._own = []
        status = self._mpi.Status()
        while self._comm.Iprobe(self._mpi.ANY_SOURCE, TAG, status):
            data = bytearray(status.Get_count(self._mpi.BYTE))
            source = status.Get_source()
            self._comm.Recv([data, self._mpi.BYTE], source=source, tag=TAG)
            came.append((source, json.loads(data)))
        return came

    def busy(self) -> bool:
        """Whether a message has not left yet."""
        return bool(self._pending)

    def leave(self) -> None:
        """Wait for what is under way and finalize MPI; collective."""
        if self._mpi.Is_finalized():
            return
        for request, _ in self._pending:
            request.Wait()
        self._mpi.Finalize()
