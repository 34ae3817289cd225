"""Nothing stays behind: what the kernel can promise about processes of ours."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when the thread that forked it ends.

    ``parent`` is its pid: one that ended before this call is noticed, too.
    """
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def libc_exit(code: int) -> None:
    """End this process by C's exit(): its handlers run, Python's do not."""
    _LIBC.exit(code)


def kill_group(group: int, number: int) -> None:
    """Signal a process group; one that is gone is fine."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def keep_watch(group: int) -> tuple[int, Callable[[], None]]:
    """Fork a process that kills ``group`` when this one is gone, however it went.

    Returns its pid and what to call when the group has ended in order. The watcher is
    a session of its own, so that no signal to ours ends it first.
    """
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(there)
        os.setsid()
        _ignore(here)
        told = os.read(here, 1)
        if not told:
            kill_group(group, signal.SIGKILL)
        os._exit(0)
    os.close(here)

    def dismiss() -> None:
        os.write(there, b".")
        os.close(there)
        os.waitpid(pid, 0)

    return pid, dismiss


def _ignore(pipe: int) -> None:
    """Leave the terminal, signals and everything inherited alone but for the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
