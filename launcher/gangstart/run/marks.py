"""Who of this node has come: one line a task in a file that only this user can read.

MPI_Init blocks until everybody has called it, so whoever waits there too long cannot
ask by MPI who is missing; on his own node he can look here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from gangstart.core import fold_ranks
from gangstart.run.place import remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangstart.run.launched import Launched


class Marks:
    """The marks of one start on this node; without a name of it there are none."""

    def __init__(self, start: str, folder: str) -> None:
        """Open the file; a file that is not ours or cannot be made is no file."""
        self.path = f"{folder}/gangstart-{os.getuid()}-{start}.marks"
        self._fd = -1
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        if start:
            with contextlib.suppress(OSError):  # then nobody knows who called
                self._fd = os.open(self.path, flags, 0o600)
        if self._fd >= 0 and os.fstat(self._fd).st_uid != os.getuid():
            os.close(self._fd)
            self._fd = -1

    def elect(self) -> bool:
        """Whether this process is the one to look at the GPUs: true for the first.

        Without a file each looks: twice is better than not at all.
        """
        if self._fd < 0:
            return True
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def add(self, rank: int) -> None:
        """Say that a rank goes into MPI_Init."""
        if self._fd >= 0:
            os.write(self._fd, f"{rank}\n".encode())

    def ranks(self) -> list[int]:
        """Ranks that have said so."""
        if self._fd < 0:
            return []
        words = os.pread(self._fd, 1 << 20, 0).decode(errors="replace").split()
        return sorted({int(word) for word in words if word.isdecimal()})

    def close(self) -> None:
        """Remove the file; the last ones to come may find it gone."""
        if self._fd >= 0:
            remove(self.path)
            os.close(self._fd)
            self._fd = -1


def missing(told: Launched, came: list[int]) -> str:
    """Say which tasks of this node are in MPI_Init and which have not come."""
    if told.local_size is None or not came:
        return "which other tasks of this node called it is not known"
    here = f"rank{'s' * (len(came) > 1)} {fold_ranks(came)}"
    if len(came) >= told.local_size:
        return (
            f"all {told.local_size} tasks of {told.node} are in it ({here}): "
            "the missing ones are on other nodes, or MPI cannot reach them"
        )
    if told.local_size == told.size:
        absent = sorted(set(range(told.size)) - set(came))
        plural = len(absent) > 1
        return (
            f"on {told.node} {here} called it; rank{'s' * plural} "
            f"{fold_ranks(absent)} never did"
        )
    return (
        f"on {told.node} {here} called it; {told.local_size - len(came)} of its "
        f"{told.local_size} tasks never did"
    )
