"""The few Linux calls Python has no function for, as exceptions instead of -1."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2
#: System call number; libc has no function for it.
PIVOT_ROOT = {"x86_64": 155, "ppc64le": 203, "s390x": 217}
PIVOT_ROOT_ELSEWHERE = 41
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    """Raise the call's errno as an OSError that says what was tried."""
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), what)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _check(_LIBC.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Move this process into the namespace behind an open descriptor."""
    _check(_LIBC.setns(descriptor, kind), "setns")


def sethostname(name: str) -> None:
    """Name the machine, in this process's UTS namespace."""
    raw = name.encode()
    _check(_LIBC.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount `source` on `target`, in this process's mount namespace."""
    raw = (source.encode(), target.encode(), kind.encode())
    result = _LIBC.mount(*raw, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {target}")


def bind(source: str, target: str) -> None:
    """Show `source` at `target` as well."""
    mount(source, target, "", MS_BIND)


def pivot_root(fresh: str, old: str) -> None:
    """Make `fresh` the root of this mount namespace, and mount the old one on `old`."""
    number = PIVOT_ROOT.get(os.uname().machine, PIVOT_ROOT_ELSEWHERE)
    result = _LIBC.syscall(ctypes.c_long(number), fresh.encode(), old.encode())
    _check(result, "pivot_root")


def detach(point: str) -> None:
    """Unmount what is mounted there, and all below it, once nobody uses it."""
    _check(_LIBC.umount2(point.encode(), MNT_DETACH), f"umount {point}")


def become_subreaper() -> None:
    """Become the parent of every descendant that loses its own."""
    _check(_LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """Set what ps shows as this process's name (15 characters)."""
    _check(_LIBC.prctl(PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")
