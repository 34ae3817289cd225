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
    from collections.abc import Mapping

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

    def add(self, rank: int, local: int | None) -> None:
        """Say that a rank goes into MPI_Init; ``local`` is its number on this node."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # a full disk: nobody knows who called
            os.write(self._fd, f"{rank}:{'' if local is None else local}\n".encode())

    def ranks(self) -> dict[int, int | None]:
        """Ranks that have said so, in order, with their number on this node."""
        if self._fd < 0:
            return {}
        words = os.pread(self._fd, 1 << 20, 0).decode(errors="replace").split()
        pairs = [word.partition(":")[::2] for word in words]
        known = [(rank, local) for rank, local in pairs if rank.isdecimal()]
        return {
            int(rank): int(local) if local.isdecimal() else None
            for rank, local in sorted(known, key=lambda pair: int(pair[0]))
        }

    def close(self) -> None:
        """Remove the file; the last ones to come may find it gone."""
        if self._fd >= 0:
            remove(self.path)
            os.close(self._fd)
            self._fd = -1


def missing(told: Launched, came: Mapping[int, int | None]) -> str:
    """Say which tasks of this node are in MPI_Init and which have not come.

    came: as ``ranks`` has it. Only who has not come is ever named as missing.
    """
    if told.local_size is None or not came:
        return "which other tasks of this node called it is not known"
    here = f"rank{'s' * (len(came) > 1)} {fold_ranks(list(came))}"
    if len(came) >= told.local_size:
        return (
            f"all {told.local_size} tasks of {told.node} are in it ({here}): "
            "the missing ones are on other nodes, or MPI cannot reach them"
        )
    alone = told.local_size == told.size
    ranks = tuple(range(told.size or 0)) if alone else told.local_ranks
    called = f"on {told.node} {here} called it; "
    absent = sorted(set(ranks) - set(came))
    if absent:
        plural = len(absent) > 1
        return f"{called}rank{'s' * plural} {fold_ranks(absent)} never did"
    return called + by_place(told.local_size, came)


def by_place(size: int, came: Mapping[int, int | None]) -> str:
    """Say who has not come where only the numbers on the node are known.

    Whatever the launcher does, a rank's number on its node says where it is; its rank
    follows from those of others only where ranks are placed in blocks.
    """
    said = f"{size - len(came)} of its {size} tasks never did"
    absent = sorted(set(range(size)) - set(came.values()))
    if len(absent) != size - len(came):
        return said
    firsts = {rank - (local or 0) for rank, local in came.items()}
    plural = len(absent) > 1
    said += f": local rank{'s' * plural} {fold_ranks(absent)}"
    if len(firsts) > 1:
        return said
    ranks = [min(firsts) + local for local in absent]
    return (
        f"{said} (rank{'s' * plural} {fold_ranks(ranks)}, if ranks were placed in "
        "blocks)"
    )
