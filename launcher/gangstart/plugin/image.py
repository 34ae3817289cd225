"""Paths of a machine whose file system lies in a folder of this one."""

from __future__ import annotations

import os
from pathlib import Path

from gangstart.errors import GangstartError

#: As many as the kernel follows: path_resolution(7).
LINKS_MAX = 40
ROOT = Path("/")


def below(root: Path, path: Path) -> Path:
    """Return where an absolute path of the machine is, as its own kernel would find it.

    Links are followed as in chroot(2): an absolute one starts at `root`, and .. ends
    there, so that the answer is never outside. What does not exist is taken as it is.
    """
    if root == ROOT:
        return path
    ahead = [*reversed(path.parts[1:])]
    here: list[str] = []
    links = 0
    while ahead:
        part = ahead.pop()
        if part == "..":
            del here[-1:]
            continue
        target = link(root.joinpath(*here, part))
        if not target:
            here.append(part)
            continue
        links += 1
        if links > LINKS_MAX:
            raise GangstartError(f"plugin: {path} below {root} has links in a circle")
        if target.startswith("/"):
            here.clear()
        ahead += reversed([one for one in target.split("/") if one not in ("", ".")])
    return root.joinpath(*here)


def matches(root: str, folder: str, pattern: str) -> list[str]:
    """Return files that a pattern of the machine stands for, as seen from here.

    `folder`: where a relative one starts, as seen from here.
    """
    inner = Path("/", os.path.relpath(folder, root), pattern)
    start = below(Path(root), inner.parent).relative_to(root)
    found = Path(root).glob(str(start / inner.name))
    real = {below(Path(root), Path("/", one.relative_to(root))) for one in found}
    return sorted(map(str, real))


def link(path: Path) -> str:
    """Return what a symbolic link says, "" for anything else or nothing."""
    try:
        return str(path.readlink())
    except OSError:
        return ""
