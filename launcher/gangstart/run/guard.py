"""Nothing stays behind: what the kernel can promise about processes of ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
STANDARD = 2  # the last of the three streams
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


def hold_streams() -> None:
    """Let no pipe of ours have the number of a standard stream that is closed.

    The program finds it closed again; to this process it is one that takes all.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STANDARD:
        continue
    os.close(fd)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def close_others(kept: int) -> None:
    """Close what was inherited, but for the standard streams and ``kept``.

    One by one: up to the limit can be a thousand million closes in a container, where
    the kernel has no close_range().
    """
    for name in os.listdir("/proc/self/fd"):
        if int(name) > STANDARD and int(name) != kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(name))


class Watcher:
    """A process that kills a process group when this one is gone, however it went.

    It is forked before the group is made, and the group's leader names itself before it
    executes anything: there is no moment at which the program runs unwatched. It is a
    session of its own, so that no signal to ours ends it first.
    """

    def __init__(self) -> None:
        """Fork it."""
        here, self._there = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._there)
            _watch(here)
        os.close(here)

    def lead(self) -> None:
        """In the program's process, before it runs: make the group and name it."""
        os.setpgid(0, 0)
        os.write(self._there, f"{os.getpid()}\n".encode())
        os.close(self._there)

    def dismiss(self) -> None:
        """The group has ended in order."""
        os.write(self._there, b".\n")
        os.close(self._there)
        os.waitpid(self._pid, 0)


def _watch(pipe: int) -> None:
    """Read until the other end is gone; then kill unless told that all is well."""
    os.setsid()
    _ignore(pipe)
    told = b""
    while data := os.read(pipe, 64):
        told += data
    words = told.split()
    if words and words[-1] != b".":
        kill_group(int(words[0]), signal.SIGKILL)
    os._exit(0)


def _ignore(pipe: int) -> None:
    """Leave the terminal, signals and everything inherited alone but for the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    close_others(pipe)
