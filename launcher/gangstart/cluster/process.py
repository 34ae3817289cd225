"""Which processes belong to a cluster, and how they end.

A process belongs to a node when it is in the node's network namespace, or when the
directory it sees as /run/gangstart is the node's own. The second proof is needed where
the keeper has died: the kernel reuses a namespace's number, but not a directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.cluster.config import HEAD, SPOOL
from gangstart.cluster.state import boot_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gangstart.cluster.state import State

    Key = tuple[int, int]

POLL_SECONDS = 0.02
TCP_LISTEN = "0A"


def pids() -> list[int]:
    """List every process on the machine."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208  twice as fast, and called in loops


def key(path: str) -> Key | None:
    """Return the identity of the file behind a path; None if it cannot be seen."""
    try:
        found = os.stat(path)  # noqa: PTH116  /proc/PID/ns is not a path to resolve
    except OSError:
        return None
    return found.st_dev, found.st_ino


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def command_name(pid: int) -> str:
    """Short name of a process ("" if there is none)."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def keeper_alive(state: State) -> bool:
    """Whether the process that holds the namespaces is still the one recorded."""
    return (
        bool(state.keeper)
        and state.boot_id == boot_id()
        and start_time(state.keeper) == state.keeper_start
    )


def members(state: State) -> dict[int, str]:
    """Map every process in the cluster's namespaces to its node."""
    marks: dict[Key | None, str] = {
        key(state.spec.path("node", node, "run")): node
        for node in (HEAD, *state.spec.node_names)
    }
    marks.pop(None, None)
    namespaces: dict[Key | None, str] = {}
    if keeper_alive(state):
        for node, held in state.spaces.items():
            namespaces[key(f"/proc/{state.keeper}/fd/{held['net']}")] = node
    seen: dict[int, Key | None] = {}
    for pid in pids():
        seen[pid] = key(f"/proc/{pid}/ns/net")
        marked = marks.get(key(f"/proc/{pid}/root{SPOOL}"))
        if marked is not None:
            namespaces.setdefault(seen[pid], marked)
    # Never the machine's own namespace, whatever was mounted in it.
    for outside in (None, key("/proc/self/ns/net"), key("/proc/1/ns/net")):
        namespaces.pop(outside, None)
    return {pid: namespaces[net] for pid, net in seen.items() if net in namespaces}


def inside(state: State) -> bool:
    """Whether this very process runs on one of the cluster's nodes."""
    here = key(SPOOL)
    return here is not None and here in {
        key(state.spec.path("node", node, "run"))
        for node in (HEAD, *state.spec.node_names)
    }


def of_node(state: State, node: str, name: str | None = None) -> list[int]:
    """List the processes of one node, only those called `name` if one is given."""
    return sorted(
        pid
        for pid, where in members(state).items()
        if where == node and pid != state.keeper and name in {None, command_name(pid)}
    )


def send(
    found: Iterable[int], belongs: Callable[[], Iterable[int]], number: int
) -> None:
    """Signal processes, each only if it still belongs once it can no longer change."""
    handles = {}
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    still = set(belongs())
    for pid, handle in handles.items():
        if pid in still:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
        os.close(handle)


def end(
    belongs: Callable[[], Iterable[int]], grace_seconds: float, deadline_seconds: float
) -> list[int]:
    """TERM, then KILL until nothing is left; return what survived the deadline."""
    start = time.monotonic()
    asked: set[int] = set()
    while True:
        left = set(belongs())
        elapsed = time.monotonic() - start
        if not left or elapsed > deadline_seconds:
            return sorted(left)
        if elapsed > grace_seconds:
            send(left, belongs, signal.SIGKILL)
        elif left - asked:
            # A stopped process takes its TERM only once it is continued.
            send(left - asked, belongs, signal.SIGTERM)
            send(left - asked, belongs, signal.SIGCONT)
            asked |= left
        time.sleep(POLL_SECONDS)


def listening(pid: int, port: int) -> bool:
    """Whether anything in the process's network namespace listens on a TCP port."""
    try:
        rows = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    wanted = f":{port:04X}"
    return any(
        columns[1].endswith(wanted) and columns[3] == TCP_LISTEN
        for columns in (row.split() for row in rows)
    )
