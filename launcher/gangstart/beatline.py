"""Heartbeats as a watcher reads them: files of the job's user, hence hostile.

No link is followed, nothing but plain files of the folder's owner is opened, sizes and
counts are bounded, and every line has to be what docs/heartbeat.schema.json says.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from pathlib import Path

LINE_MAX = 512  # bytes, line end included
PHASE_MAX = 64
STEP_MAX = (1 << 53) - 1  # what JSON's readers agree on
RANK_MAX = (1 << 31) - 1
PID_MAX = 1 << 22  # Linux's PID_MAX_LIMIT
TIME_MAX = 1e12
FLOAT_MAX = sys.float_info.max
FILES_MAX = 4096
TAIL = 1 << 16  # of each file
WORDS = ("nan", "inf", "-inf", "unread")
NAME = re.compile(r"heartbeat-(\d{1,10})-(\d{1,7})\.jsonl")


@dataclass(frozen=True)
class Beat:
    """One heartbeat. wall: Unix time, mono: CLOCK_MONOTONIC of its node, seconds.

    loss: None: none was given; nan and infinities are what the training had;
    ``unread``: there was one, on a device.
    """

    wall: float
    mono: float
    rank: int
    pid: int
    step: int | None
    loss: float | None
    unread: bool
    phase: str | None


@dataclass(frozen=True)
class Beats:
    """What a folder holds: heartbeats by rank and process, oldest first.

    ``refused``: name of a file (cut, printable) -> what was wrong with it, or with the
    first bad line of it.
    """

    by_process: dict[tuple[int, int], tuple[Beat, ...]]
    refused: dict[str, str]

    def newest(self) -> dict[int, Beat]:
        """The newest heartbeat of each rank, by its node's monotonic clock."""
        found: dict[int, Beat] = {}
        for beats in self.by_process.values():
            last = max(beats, key=lambda beat: beat.mono)
            if last.rank not in found or last.mono > found[last.rank].mono:
                found[last.rank] = last
        return found


def file_name(rank: int, pid: int) -> str:
    """The one file that a process writes."""
    return f"heartbeat-{rank}-{pid}.jsonl"


def is_number(value: object, most: float) -> bool:
    """Whether it is a finite number from 0 to most."""
    return (
        isinstance(value, (int, float))
        and type(value) is not bool
        and (0 <= value <= most)
    )


def is_whole(value: object, most: int) -> bool:
    """Whether it is a whole number from 0 to most, written as one."""
    return type(value) is int and 0 <= value <= most


def is_loss(value: object) -> bool:
    """Whether it is a finite number, one of WORDS, or nothing."""
    if isinstance(value, (int, float)) and type(value) is not bool:
        return -FLOAT_MAX <= value <= FLOAT_MAX
    return value is None or (isinstance(value, str) and value in WORDS)


def is_phase(value: object) -> bool:
    """Whether it is printable ASCII that is not too long, or nothing."""
    if value is None:
        return True
    if not isinstance(value, str) or len(value) > PHASE_MAX:
        return False
    return value.isascii() and value.isprintable()


#: Field -> whether its value can be.
FIELDS = {
    "v": lambda value: type(value) is int and value == 1,
    "wall": lambda value: is_number(value, TIME_MAX),
    "mono": lambda value: is_number(value, TIME_MAX),
    "rank": lambda value: is_whole(value, RANK_MAX),
    "pid": lambda value: is_whole(value, PID_MAX),
    "step": lambda value: value is None or is_whole(value, STEP_MAX),
    "loss": is_loss,
    "phase": is_phase,
}


def parse(line: bytes) -> Beat:
    """Read one line; raises ValueError that says what is wrong with it."""
    if len(line) > LINE_MAX:
        raise ValueError(f"a line of more than {LINE_MAX} bytes")
    try:
        raw: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a line that is no JSON") from None
    if not isinstance(raw, dict) or raw.keys() != FIELDS.keys():
        raise ValueError("a line with other fields than a heartbeat's")
    for name, fits in FIELDS.items():
        if not fits(raw[name]):
            raise ValueError(f"a line whose {name} cannot be")
    loss = raw["loss"]
    return Beat(
        wall=float(raw["wall"]),
        mono=float(raw["mono"]),
        rank=raw["rank"],
        pid=raw["pid"],
        step=raw["step"],
        loss=None if loss is None or loss == "unread" else float(loss),
        unread=loss == "unread",
        phase=raw["phase"],
    )


def read_beats(user: Path) -> Beats:
    """Read the heartbeats of a step on this node; user: its folder user/.

    Of each file the last 64 KiB, of at most 4096 files. Raises GangstartError when the
    folder itself cannot be read or is a link.
    """
    try:
        folder = os.open(user, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise GangstartError(f"no heartbeats in {user}: {error.strerror}") from None
    found: dict[tuple[int, int], tuple[Beat, ...]] = {}
    refused: dict[str, str] = {}
    try:
        for name in names(folder, refused):
            good, why = taken(folder, name)
            if good:
                found[(good[-1].rank, good[-1].pid)] = good
            if why:
                refused[name] = why
    finally:
        os.close(folder)
    return Beats(found, refused)


def names(folder: int, refused: dict[str, str]) -> list[str]:
    """Names of heartbeat files, bounded."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if NAME.fullmatch(entry.name) is None:
                continue
            if len(found) == FILES_MAX:
                refused["…"] = f"there are more than {FILES_MAX} files"
                break
            found.append(entry.name)
    return sorted(found)


def taken(folder: int, name: str) -> tuple[tuple[Beat, ...], str]:
    """As ``read_file``; a file that cannot be read is wrong as a whole."""
    try:
        return read_file(folder, name)
    except OSError as error:
        return (), error.strerror or str(error)
    except ValueError as error:
        return (), str(error)


def read_file(folder: int, name: str) -> tuple[tuple[Beat, ...], str]:
    """The heartbeats of one file, and what is wrong with a line of it ("": nothing).

    A last line without its end is still being written and does not count.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    try:
        info, owner = os.fstat(fd), os.fstat(folder)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != owner.st_uid:
            raise ValueError("no plain file of the folder's owner")
        begin = max(0, info.st_size - TAIL)
        raw = os.pread(fd, TAIL, begin)
    finally:
        os.close(fd)
    lines = raw.split(b"\n")[1 if begin else 0 : -1]
    match = NAME.fullmatch(name)
    who = (int(match[1]), int(match[2])) if match else (-1, -1)
    good: list[Beat] = []
    why = ""
    for line in lines:
        beat, wrong = checked(line, who)
        why = why or wrong
        if beat is not None:
            good.append(beat)
    return tuple(good), why


def checked(line: bytes, who: tuple[int, int]) -> tuple[Beat | None, str]:
    """A line of this rank and pid, or what is wrong with it."""
    try:
        beat = parse(line)
    except ValueError as error:
        return None, str(error)
    if (beat.rank, beat.pid) != who:
        return None, "a line of another process than the file's name says"
    return beat, ""
