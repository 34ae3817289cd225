"""One process as /proc shows it, read with bounds and without following links.

The directory of a process is opened once and everything is read through it: when the
process ends in between, the reads fail, and never tell of another one that has got its
number. A fake /proc is a directory with the same files.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
BLOCK = 1 << 16
SMALL = 1 << 12
ENVIRON_BYTES = 1 << 20
MAPS_BYTES = 1 << 24
FDS = 4096
#: Words of /proc/PID/stat after the name: state, parent … start is the 20th.
STAT_PARENT, STAT_START = 1, 19
#: Set by sshd and by logind.
LOGIN = ("SSH_CONNECTION", "XDG_SESSION_ID")
#: Environment that says whose a process is; nothing else of it is kept.
WANTED = ("SLURM_JOB_ID", "SLURM_JOBID", "MASTER_PORT", *LOGIN)
UNINTERRUPTIBLE = "D"
GONE = frozenset("ZXx")


@dataclass(frozen=True)
class Stat:
    """The parts of /proc/PID/stat that matter here."""

    name: str
    state: str
    parent: int
    start_ticks: int  # since boot; with the pid it names a process for good


def parse_stat(raw: bytes) -> Stat | None:
    """Read a stat line; the name in it may hold anything, brackets too."""
    begin, end = raw.find(b"("), raw.rfind(b")")
    rest = raw[end + 1 :].split()
    if begin < 0 or end < begin or len(rest) <= STAT_START:
        return None
    if not (rest[STAT_PARENT].isdigit() and rest[STAT_START].isdigit()):
        return None
    name = raw[begin + 1 : end].decode(errors="replace")
    state = rest[0].decode(errors="replace")
    return Stat(name, state, int(rest[STAT_PARENT]), int(rest[STAT_START]))


def parse_environ(raw: bytes, limit: int = ENVIRON_BYTES) -> dict[str, str] | None:
    """What is wanted of an environment; None if it was cut off before that was seen."""
    found: dict[str, str] = {}
    for item in raw.split(b"\0"):
        name, equals, value = item.partition(b"=")
        key = name.decode(errors="replace")
        if equals and key in WANTED:
            found.setdefault(key, value[:SMALL].decode(errors="replace"))
    known = any(name in found for name in WANTED[:2])
    return found if known or len(raw) < limit else None


def parse_argv(raw: bytes) -> tuple[str, ...]:
    """Arguments; a process that wrote a title over them has it as the first."""
    text = raw.rstrip(b"\0")
    parts = text.split(b"\0") if text else []
    return tuple(part.decode(errors="replace") for part in parts)


def parse_maps(raw: bytes, device: int) -> set[int]:
    """Inodes of the mapped files of one device; a large process maps thousands."""
    shown = f" {os.major(device):02x}:{os.minor(device):02x} ".encode()
    if shown not in raw:
        return set()
    return {int(inode) for inode in re.findall(re.escape(shown) + rb"(\d{1,19})", raw)}


class Entry:
    """The open directory of one process."""

    def __init__(self, fd: int) -> None:
        """Take an open directory; process() below opens and closes it."""
        self.fd = fd

    def read(self, name: str, limit: int = SMALL) -> bytes | None:
        """A file's first bytes, None if it cannot be read."""
        try:
            file = os.open(name, READ, dir_fd=self.fd)
        except OSError:
            return None
        return read_and_close(file, limit)

    def link(self, name: str) -> str:
        """Where a link points, "" if there is none. Never follows it."""
        return link_at(self.fd, name)

    def stat(self) -> Stat | None:
        """State and start."""
        raw = self.read("stat")
        return parse_stat(raw) if raw else None

    def uid(self) -> int | None:
        """Real user: the one who started it."""
        for line in (self.read("status") or b"").splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == b"Uid:" and words[1].isdigit():
                return int(words[1])
        return None

    def cgroup(self) -> str:
        """Its cgroups, one per line for version 1."""
        return (self.read("cgroup", BLOCK) or b"").decode(errors="replace")

    def environ(self) -> dict[str, str] | None:
        """What is wanted of its environment, None if that cannot be read."""
        raw = self.read("environ", ENVIRON_BYTES)
        return None if raw is None else parse_environ(raw)

    def argv(self) -> tuple[str, ...]:
        """Its arguments."""
        return parse_argv(self.read("cmdline", BLOCK) or b"")

    def open_files(self) -> list[str] | None:
        """Names of what it has open; None if that may not be looked at."""
        try:
            fd = os.open("fd", FOLDER | os.O_NOFOLLOW, dir_fd=self.fd)
        except OSError:
            return None
        try:
            return [link_at(fd, name) for name in os.listdir(fd)[:FDS]]  # noqa: PTH208 - of a descriptor
        except OSError:
            return None
        finally:
            os.close(fd)

    def mapped(self, device: int) -> set[int]:
        """Inodes of the files of a device that it has mapped."""
        return parse_maps(self.read("maps", MAPS_BYTES) or b"", device)


def link_at(fd: int, name: str) -> str:
    """Where a link in a directory points; "" if it went away."""
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:
        return ""


def read_and_close(fd: int, limit: int) -> bytes | None:
    """Read until the end or the limit (/proc gives a page at a time), then close."""
    parts: list[bytes] = []
    left = limit
    try:
        while left > 0 and (part := os.read(fd, min(left, BLOCK))):
            parts.append(part)
            left -= len(part)
    except OSError:
        return None
    finally:
        os.close(fd)
    return b"".join(parts)


def read_file(path: Path, limit: int) -> bytes | None:
    """First bytes of a file that is no link, None if it cannot be read."""
    try:
        fd = os.open(path, READ)
    except OSError:
        return None
    return read_and_close(fd, limit)


@contextmanager
def process(root: Path, pid: int) -> Iterator[Entry | None]:
    """Open a process; None if there is none of that number."""
    try:
        fd = os.open(root / str(pid), FOLDER | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    try:
        yield Entry(fd)
    finally:
        os.close(fd)


def pids(root: Path) -> list[int]:
    """Numbers of all processes there are."""
    names = (path.name for path in root.iterdir())
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def boot_time(root: Path) -> int | None:
    """When the node was booted, on the wall clock."""
    for line in (read_file(root / "stat", 1 << 20) or b"").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1])
    return None


def own_network(root: Path) -> str:
    """The network of this process."""
    try:
        return str((root / "self" / "ns" / "net").readlink())
    except OSError:
        return ""
