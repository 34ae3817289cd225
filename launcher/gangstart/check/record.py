"""Records of checks in the spool: one JSON line each, appended by one write.

SPOOL/JOB.node/sys/events.jsonl. The folders are root's alone; a link, or a folder that
somebody else could write to, is refused. What is there is read with bounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SPOOL = Path("/run/gangstart")
NODE_FOLDER = re.compile(r"(\d{1,10})\.node")
FILE = "events.jsonl"
SAMPLE = "health.json"  # of the hook of the plugin
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
APPEND = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | os.O_NOFOLLOW
    | os.O_NONBLOCK
    | os.O_CLOEXEC
)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
TAIL_BYTES = 1 << 23
JOBS = 4096
KEPT = 32  # records of ended jobs: the spool is memory
OPEN = 128  # of jobs without an epilog: more do not run on one node
WRITABLE_BY_OTHERS = 0o022

Event = dict[str, Any]


@dataclass(frozen=True)
class Spool:
    """The records of one job on this node."""

    base: Path
    job: int

    @property
    def path(self) -> Path:
        """The file of its events."""
        return self.base / f"{self.job}.node" / "sys" / FILE

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one line; raises OSError with the reason if it cannot be kept."""
        line = json.dumps(event, ensure_ascii=True, separators=(",", ":")) + "\n"
        raw = line.encode()
        folder = open_folder(self.base, [f"{self.job}.node", "sys"])
        try:
            fd = os.open(FILE, APPEND, 0o644, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            refuse_strangers(fd, self.path, stat.S_ISREG)
            if os.write(fd, raw) != len(raw):
                raise OSError(28, "only a part of the line was written", str(self.path))
        finally:
            os.close(fd)

    def events(self) -> list[Event]:
        """Lines that are JSON objects, oldest first, of the last few MiB."""
        return list(read_events(self.path))


def open_folder(base: Path, names: Sequence[str]) -> int:
    """Open folders inside of each other, made where they are missing; none a link."""
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(base, FOLDER | os.O_NOFOLLOW)
    path = base
    try:
        refuse_strangers(fd, path, stat.S_ISDIR)
        for name in names:
            path = path / name
            below = enter(fd, name)
            os.close(fd)
            fd = below
            refuse_strangers(fd, path, stat.S_ISDIR)
    except BaseException:  # whatever it is, the descriptor is nobody's
        os.close(fd)
        raise
    return fd


def enter(fd: int, name: str) -> int:
    """Open a folder in a folder; make it first if need be."""
    try:
        os.mkdir(name, 0o755, dir_fd=fd)
    except FileExistsError:
        return os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
    made = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
    # slurmd's umask is not ours to rely on.
    os.fchmod(made, 0o755)
    return made


def refuse_strangers(fd: int, path: Path, kind: Any) -> None:  # noqa: ANN401
    """Refuse what is of another kind, or somebody else's to write."""
    info = os.fstat(fd)
    if not kind(info.st_mode):
        raise OSError(22, "it is not what it should be", str(path))
    if info.st_uid != os.geteuid() or info.st_mode & WRITABLE_BY_OTHERS:
        raise OSError(
            1, "it belongs to another user, or others may write to it", str(path)
        )


def read_events(path: Path) -> Iterator[Event]:
    """Lines of a file that are JSON objects; what is broken is passed over."""
    try:
        fd = os.open(path, READ)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return
        file.seek(max(info.st_size - TAIL_BYTES, 0))
        lines = file.read(TAIL_BYTES).splitlines()
    for line in lines:
        event = parse(line)
        if event is not None:
            yield event


def parse(line: bytes) -> Event | None:
    """One line as an object."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def open_jobs(base: Path) -> dict[int, int | None]:
    """Jobs whose prolog was recorded here and whose epilog was not, and their users."""
    found: dict[int, int | None] = {}
    for job in recorded_jobs(base):
        events = [e for e in Spool(base, job).events() if e.get("event") == "check"]
        if events and events[-1].get("stage") == "prolog":
            user = events[-1].get("job_uid")
            found[job] = user if isinstance(user, int) else None
    return found


def recorded_jobs(base: Path) -> list[int]:
    """Jobs that have records here."""
    try:
        names = (path.name for path in base.iterdir())
        return sorted(int(m[1]) for m in map(NODE_FOLDER.fullmatch, names) if m)[-JOBS:]
    except OSError:
        return []


def prune(base: Path, keep: int = KEPT, keep_open: int = OPEN) -> None:
    """Remove the oldest records: nobody else does without the plugin's epilog."""
    running = open_jobs(base)
    ended = [job for job in recorded_jobs(base) if job not in running]
    for jobs, most in ((ended, keep), (list(running), keep_open)):
        dated = sorted((modified(Spool(base, job).path), job) for job in jobs)
        for _, job in dated[: max(len(dated) - most, 0)]:
            remove(Spool(base, job))


def modified(path: Path) -> float:
    """When a file was last written; 0 if it is not there."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def remove(spool: Spool) -> None:
    """Remove the file and its folders; whoever put more there keeps it."""
    try:
        folder = os.open(spool.path.parent, FOLDER | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        for name in (FILE, SAMPLE):
            with contextlib.suppress(FileNotFoundError):  # only hooks leave both
                os.unlink(name, dir_fd=folder)
        spool.path.parent.rmdir()
        spool.path.parent.parent.rmdir()
    except OSError:
        pass
    finally:
        os.close(folder)
