"""The start as the process sees it that the launcher started: watch the worker.

The watch is armed before MPI_Init is called, in a process without MPI: it ends on time
whatever MPI does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from gangstart.core import EXIT_CONFIG
from gangstart.record import Record
from gangstart.run.control import say
from gangstart.run.guard import Watcher, die_with_parent
from gangstart.run.judge import mismatch
from gangstart.run.marks import missing
from gangstart.run.worker import forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gangstart.run.marks import Marks
    from gangstart.run.member import Ready

EXIT_ABSENT = 75  # not everybody arrived
INNOCENT_S = 2.0  # who misses nobody, or says nothing, lets the others speak first
GRACE_S = 30.0  # beyond T, for rank 0's word, and for MPI_Finalize


class Released(Record):
    """What this rank was given; the control socket listens on rank 0 only."""

    rank: int
    node: str
    world: int
    set: Mapping[str, str]
    unset: tuple[str, ...]
    control: tuple[str, int]
    key: bytes
    listening: socket.socket | None


class Refused(Exception):  # noqa: N818 - a decision, not an error
    """The start is not to be; text is for stderr and may be empty.

    abort: no worker can tell the launcher; wait_s: to be said only if this process is
    still there after so many seconds.
    """

    def __init__(
        self, code: int, text: str = "", *, abort: bool = False, wait_s: float = 0
    ) -> None:
        """Keep the exit code and the lines."""
        super().__init__(text)
        self.code, self.text, self.abort, self.wait_s = code, text, abort, wait_s


class Startup:
    """One rank's start: fork the worker, hear it out, end it on time."""

    def __init__(self, ready: Ready, marks: Marks) -> None:
        """Nothing is started yet."""
        self.ready, self.marks = ready, marks
        self.phase = "fork"
        self.rank: int | None = ready.launched.rank
        self.library = ""  # the MPI that the worker has loaded
        self._released: dict[str, Any] | None = None
        self._listening: socket.socket | None = None
        self._pid = 0

    def run(self, env: Mapping[str, str]) -> Released:
        """Return what this rank was given; raises Refused."""
        ours, theirs = socket.socketpair()
        self._since = time.monotonic()
        parent = os.getpid()
        sys.stderr.flush()
        self.watcher = Watcher() if self.ready.script else None
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            if self.watcher is not None:
                self.watcher.lead()
            die_with_parent(parent)
            forked(theirs, self.ready, env)
        theirs.close()
        self._channel = ours
        self._hear(ours)
        if not self.ready.script:
            os.waitpid(self._pid, 0)
            ours.close()
        return self._given()

    def go_on(self) -> int:
        """Let the worker run the program in its own interpreter; its pid."""
        self._channel.sendall(b".")
        self._channel.close()
        return self._pid

    def _hear(self, channel: socket.socket) -> None:
        """Take the worker's word until it has left MPI or stands ready to go on."""
        buffer = b""
        while self.phase != "ready":
            data = self._read(channel)
            if not data and self.phase == "left":
                return
            if not data:
                self._died()
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _read(self, channel: socket.socket) -> bytes:
        """What comes next in time; empty at the end of the line."""
        left = self._deadline() - time.monotonic()
        if left <= 0 or not select.select([channel], [], [], left)[0]:
            self._late()
        try:
            data, fds, _, _ = socket.recv_fds(channel, 1 << 16, 1)
        except ConnectionError:
            return b""
        if fds:
            self._listening = socket.socket(fileno=fds[0])
        return data

    def _deadline(self) -> float:
        timeout = self.ready.spec.timeout_s
        if self.phase in {"fork", "init"}:
            return self.ready.came + timeout
        if self.phase == "world":
            return self.ready.came + timeout + GRACE_S
        return self._since + GRACE_S

    def _take(self, said: dict[str, Any]) -> None:
        self.phase = said["phase"]
        self._since = time.monotonic()
        if self.phase == "init":
            self.library = said["library"]
        elif self.phase == "world":
            self.rank = said["rank"] if self.rank is None else self.rank
        elif self.phase == "refused":
            wait_s = INNOCENT_S if said.get("alone") and not said["text"] else 0
            raise Refused(said["code"], said["text"], wait_s=wait_s)
        elif self.phase == "failed":
            raise Refused(
                said["code"], self._sentence(f"the start failed: {said['text']}")
            )
        elif self.phase == "released":
            self._released = said

    def _who(self) -> str:
        told = self.ready.launched
        rank = "a rank" if self.rank is None else f"rank {self.rank}"
        by = told.by or "no launcher that is known"
        return f"{rank} on {told.node}, pid {os.getpid()}, started by {by}, {told.pmi}"

    def _sentence(self, what: str) -> str:
        return f"gang-start: {what} ({self._who()})\n"

    def _late(self) -> None:
        """Time is over: say what is known."""
        self._kill()
        timeout = self.ready.spec.timeout_s
        if self.phase in {"fork", "init"}:
            here = self.ready.launched.local_size
            complete = here is not None and len(self.marks.ranks()) >= here
            raise Refused(
                EXIT_ABSENT,
                self._init_hangs(timeout),
                abort=True,
                wait_s=INNOCENT_S if complete else 0,
            )
        if self.phase == "world":
            said = f"refused: no decision from rank 0 within {timeout + GRACE_S:.0f} s"
            raise Refused(EXIT_ABSENT, self._sentence(said))
        said = f"MPI_Finalize has not returned within {GRACE_S:.0f} s"
        raise Refused(EXIT_ABSENT, self._sentence(said))

    def _init_hangs(self, timeout: float) -> str:
        """The lines of an MPI_Init that does not return, from one task of the node."""
        came = self.marks.ranks()
        if came and self.ready.launched.rank not in (None, min(came)):
            return ""
        said = f"refused after {timeout:.0f} s: MPI_Init, called by gangstart run, has not returned"  # noqa: E501
        where = missing(self.ready.launched, came)
        return (
            f"{self._sentence(said)}  {where}\n"
            "  next: look at the ranks that are missing; if none is, try the other "
            "srun --mpi=TYPE, or the mpirun of the MPI that mpi4py loads\n"
        )

    def _died(self) -> None:
        """The worker ended without its last word."""
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        if self.phase == "init":
            self._init_died(how)
        said = f"refused: MPI ended the process in phase {self.phase!r} with {how}"
        raise Refused(EXIT_ABSENT, self._sentence(said))

    def _init_died(self, how: str) -> None:
        """MPI_Init has ended the worker; under a wrong launcher on all ranks alike."""
        told = self.ready.launched
        why = mismatch(told.by, told.pmi, self.library)
        if not why:
            said = f"refused: {self.library} ended the process in MPI_Init with {how}"
            raise Refused(EXIT_ABSENT, self._sentence(said))
        said = f"refused: MPI_Init ended the process with {how}: {why}"
        if told.rank:  # a launcher would end rank 0 before it has said so
            raise Refused(EXIT_CONFIG, wait_s=INNOCENT_S)
        raise Refused(EXIT_CONFIG, self._sentence(said))

    def _kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def _given(self) -> Released:
        raw = self._released
        if raw is None:
            raise Refused(EXIT_ABSENT, self._sentence("the start told nothing"))
        if raw["text"]:
            say(f"gang-start: warning: {raw['text']}\n")
        return Released(
            rank=raw["rank"],
            node=raw["node"],
            world=raw["world"],
            set=raw["set"],
            unset=tuple(raw["unset"]),
            control=(raw["control"][0], raw["control"][1]),
            key=bytes.fromhex(raw["key"]),
            listening=self._listening,
        )
