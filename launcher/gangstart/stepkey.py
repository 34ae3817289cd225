"""The key and the ports with which the tasks of a step find each other: meet.key.

The plugin and gangstart run leave it in the step's folder, readable for its user alone;
see spool.h.
"""

from __future__ import annotations

import json
import os
import stat

from gangstart.errors import GangstartError
from gangstart.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

NAME = "meet.key"
SIZE_MAX = 512
KEY_HEX = 64


class StepKey(Record):
    """What all tasks of a step know and nobody else; ports (0, 0): any."""

    key: bytes
    ports: tuple[int, int]

    def __repr__(self) -> str:
        """Never show the key."""
        return f"StepKey(ports={self.ports})"


def line_of(made: StepKey) -> bytes:
    """The file's content."""
    shown = {"version": 1, "key": made.key.hex(), "ports": list(made.ports)}
    return json.dumps(shown).encode() + b"\n"


def read_key(spool: Path) -> StepKey:
    """Read a step's key; raises GangstartError if it is not there or not private."""
    path = spool / NAME
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            private = stat.S_ISREG(info.st_mode) and not info.st_mode & 0o077
            raw = os.read(fd, SIZE_MAX) if private else b""
        finally:
            os.close(fd)
    except OSError as error:
        raise GangstartError(
            f"barrier: the step's key cannot be read: {path}: {error.strerror}"
        ) from None
    if not private:
        raise GangstartError(f"barrier: {path} can be read by others; it is not used")
    try:
        made = json.loads(raw)
        key, ports = bytes.fromhex(made["key"]), made["ports"]
        found = StepKey(key, (int(ports[0]), int(ports[1])))
    except (ValueError, KeyError, TypeError, IndexError):
        raise GangstartError(f"barrier: {path} is no key of a step") from None
    if len(key) * 2 != KEY_HEX:
        raise GangstartError(f"barrier: {path} is no key of a step")
    return found
