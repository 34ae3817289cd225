"""Shared memory: what is in /dev/shm, and removing what an ended job left there."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.check.leftover import Shm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER = Path("/dev/shm")  # noqa: S108 - looked at; nothing is made there
ENTRIES = 65536
#: Who makes such names, to say what a file was for.
MAKERS = (
    (re.compile(r"^nccl-"), "NCCL"),
    (re.compile(r"^(vllm|VLLM)"), "vLLM"),
    (re.compile(r"^psm(2|3)?_"), "PSM or Python"),
    (re.compile(r"^torch(elastic)?_"), "PyTorch"),
    (re.compile(r"^sem\."), "a semaphore"),
    (re.compile(r"^(ray|plasma)"), "Ray"),
    (re.compile(r"^(vader|sm)_segment|^ucx_shm|^mpich"), "MPI"),
    (re.compile(r"^nvshmem"), "NVSHMEM"),
)


@dataclass(frozen=True)
class File:
    """One plain file of /dev/shm."""

    name: str
    uid: int
    device: int
    inode: int
    bytes: int


def maker_of(name: str) -> str:
    """Who makes files of such a name, "" if that is not known."""
    return next((maker for shape, maker in MAKERS if shape.match(name)), "")


def listed(folder: Path) -> list[File]:
    """Plain files there; folders and links are nobody's shared memory."""
    found: list[File] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    found.append(file_of(entry.name, info))
                if len(found) == ENTRIES:
                    break
    except OSError:
        pass
    return sorted(found, key=lambda file: file.name)


def file_of(name: str, info: os.stat_result) -> File:
    """What is kept of a file's status."""
    size = info.st_blocks * 512
    return File(name, info.st_uid, info.st_dev, info.st_ino, size)


def with_holders(
    files: Iterable[File],
    opened: Mapping[int, Iterable[str]],
    mapped: Mapping[int, Iterable[tuple[int, int]]],
    folder: Path,
) -> list[Shm]:
    """Join files with the processes that have them open (by name) or mapped."""
    holders: dict[str, set[int]] = {}
    names = {(file.device, file.inode): file.name for file in files}
    prefix = f"{folder}/"
    for pid, paths in opened.items():
        for path in paths:
            if path.startswith(prefix):
                holders.setdefault(path[len(prefix) :], set()).add(pid)
    for pid, places in mapped.items():
        for place in places:
            if place in names:
                holders.setdefault(names[place], set()).add(pid)
    return [
        Shm(prefix + f.name, f.uid, tuple(sorted(holders.get(f.name, ()))))
        for f in files
    ]


def remove(folder: Path, file: File, uid: int) -> str:
    """Remove a file if it is still the one that was judged; why not, else "".

    The folder is opened once and nothing in it is followed, so that a link or another
    file put there in between is left alone.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or "cannot be opened"
    try:
        info = os.stat(file.name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode):
            return "it is no plain file any more"
        if info.st_uid != uid or info.st_uid != file.uid:
            return "it is another user's"
        if (info.st_dev, info.st_ino) != (file.device, file.inode):
            return "it is another file by now"
        os.unlink(file.name, dir_fd=fd)
    except OSError as error:
        return error.strerror or "cannot be removed"
    finally:
        os.close(fd)
    return ""
