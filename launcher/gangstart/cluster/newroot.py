"""Gives the nodes another root: a folder with another Slurm, and this machine in it.

The folder itself is never changed: it is the lower layer of an overlay whose upper one
is in memory. What this machine has to lend (devices, users, homes, this package and its
Python) is mounted over it, at the same paths.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
from gangstart.cluster import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangstart.cluster.config import Spec

MODULE = "gangstart.cluster.newroot"
#: Where the layers are put together, out of sight: each node has its own /tmp later.
STAGE = Path("/tmp")  # noqa: S108  a mount point in a namespace of our own
#: What a root must share with the machine that it runs on.
MACHINE = ("/proc", "/sys", "/dev")
#: Its users, by links into its own /etc: what adds a user replaces these files.
USERS = ("passwd", "group")
USERS_FOLDER = "/.machine/etc"
SYSTEM_PYTHON = Path("/usr/bin/python3")
EXIT_NO_EXEC = 127


def main(arguments: Sequence[str]) -> int:
    """ROOT COMMAND…: become a command in the folder, with nothing of this machine."""
    root, *command = arguments
    try:
        os.chroot(root)
        os.chdir("/")
        os.execv(command[0], command)  # noqa: S606  no shell
    except OSError as error:
        sys.stderr.write(f"{error.strerror}: {error.filename or root}\n")
    return EXIT_NO_EXEC


def lent(home: str) -> tuple[str, ...]:
    """Paths of this machine that every node has to see: homes, Python, this package.

    Of the system's Python only its own files: the rest of /usr is what is replaced.
    """
    found = {"/home", "/var/tmp", home, sys.prefix, sys.base_prefix}  # noqa: S108  as above
    found.add(str(Path(gangstart.__file__).parents[1]))
    if SYSTEM_PYTHON.exists():
        program = SYSTEM_PYTHON.resolve()
        found |= {str(SYSTEM_PYTHON), str(program)}
        found |= {f"/usr/lib/{program.name}", "/usr/lib/python3"}
    return tuple(sorted(found - {"", "/", "/usr"}))


def outermost(paths: Iterable[str]) -> list[str]:
    """Leave out what lies below another of the paths."""
    kept: list[str] = []
    for path in sorted(paths):
        if not any(Path(path).is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def move(spec: Spec) -> None:
    """Make the folder the root of this process's mount namespace.

    Call it in a mount namespace of its own, from which nothing spreads.
    """
    fresh = STAGE / "root"
    layers = f"lowerdir={spec.root},upperdir={STAGE}/upper,workdir={STAGE}/work"
    kernel.mount("tmpfs", str(STAGE), "tmpfs", 0, "mode=0755")
    for name in ("root", "upper", "work"):
        (STAGE / name).mkdir(mode=0o755)
    kernel.mount("overlay", str(fresh), "overlay", 0, layers)
    # The cluster's own folder is new: it may lie in one that is lent already.
    for path in outermost([*MACHINE, *spec.binds, spec.directory]):
        if Path(path).exists():
            lend(path, fresh)
    lend("/etc", fresh, USERS_FOLDER)
    for name in USERS:
        (fresh / "etc" / name).unlink(missing_ok=True)
        (fresh / "etc" / name).symlink_to(f"{USERS_FOLDER}/{name}")
    os.chdir(fresh)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")


def lend(path: str, fresh: Path, target: str = "") -> None:
    """Show a folder or file of this machine in the fresh root, at the same path."""
    point = fresh / (target or path).lstrip("/")
    point.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the root has one: it is covered
        if Path(path).is_dir():
            point.mkdir()
        else:
            point.touch(exist_ok=False)
    kernel.mount(path, str(point), "", kernel.MS_BIND | kernel.MS_REC)
