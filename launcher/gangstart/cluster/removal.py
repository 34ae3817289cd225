"""Down: every process of a cluster ends, and nothing of it stays on the machine.

Works on whole clusters, on what an `up` left that was killed, after daemons died, and
after a restart of the machine; what is already gone is no error.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.cluster import keeper, process, state
from gangstart.cluster.config import Spec, check_name
from gangstart.cluster.state import State
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_SECONDS = 2.0
KILL_SECONDS = 15.0
BURIAL_SECONDS = 1.0
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def down(name: str) -> bool:
    """Take a cluster down; False if there was none."""
    check_name(name)
    entry = state.base() / name
    if not entry.is_symlink() and not entry.exists():
        return False
    directory = entry.resolve()
    if not directory.exists():
        state.release(state.base(), name)
        return True
    try:
        with state.locked(directory), uninterrupted():
            remove(name, directory)
    except FileNotFoundError:
        return False
    return True


def remove(name: str, directory: Path) -> None:
    """End every process of a cluster, and remove its directory and its name."""
    current = state.read(directory) or State(Spec(name=name, directory=str(directory)))
    if process.inside(current):
        raise GangstartError(
            f"cluster {name}: this command runs on one of its nodes: leave it first"
        )
    left = end_all(current)
    if left:
        raise GangstartError(
            f"cluster {name}: processes {left} do not end even by SIGKILL (state D?): "
            f"{directory} is kept; try again when they have gone"
        )
    mounted = [m for m in mount_points() if Path(m).is_relative_to(directory)]
    if mounted:
        raise GangstartError(
            f"cluster {name}: {mounted[0]} is a mount point: umount it, then down again"
        )
    erase(directory)
    state.release(state.base(), name)


def end_all(current: State) -> list[int]:
    """End the cluster's processes, the keeper last; return those that would not."""
    keepers = f"{keeper.MODULE}\0{current.spec.directory}\0".encode()

    def members() -> list[int]:
        found = process.members(current)
        return [pid for pid in found if not command_line(pid).endswith(keepers)]

    known = {pid: process.start_time(pid) for pid in named(keepers)}

    def keepers_left() -> list[int]:
        # One that is just letting go of hundreds of namespaces has no command line.
        going = [p for p, began in known.items() if process.start_time(p) == began]
        return [*named(keepers), *(pid for pid in going if known[pid] is not None)]

    # It holds the namespaces, and so the proof of who belongs to them, but a keeper
    # that is still at work must start nothing more.
    process.send(named(keepers), lambda: named(keepers), signal.SIGSTOP)
    left = process.end(members, GRACE_SECONDS, KILL_SECONDS)
    # One that is done with its work gets the time to bury its children.
    grace = BURIAL_SECONDS if current.phase == state.UP else 0.0
    left = left or process.end(keepers_left, grace, KILL_SECONDS)
    # What it had started, but what had not reached its namespaces when asked for.
    return left or process.end(members, 0.0, KILL_SECONDS)


def named(ending: bytes) -> list[int]:
    """List the processes of this user whose command line ends like this."""
    own = os.geteuid()
    found = [pid for pid in process.pids() if command_line(pid).endswith(ending)]
    return [pid for pid in found if owner_of(pid) == own]


def owner_of(pid: int) -> int | None:
    """User id of a process; None if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def command_line(pid: int) -> bytes:
    """Command line of a process, its arguments ended by NUL; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def mount_points() -> list[str]:
    """Everything mounted where this process can see it."""
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    return [row.split()[4] for row in rows]


def erase(directory: Path) -> None:
    """Remove a tree, even where a job left directories closed to their owner."""
    try:
        shutil.rmtree(directory)
    except PermissionError:
        for folder, names, _ in os.walk(directory):
            for path in (Path(folder, name) for name in names):
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(directory)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C and TERM: a removal that has begun is finished."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
