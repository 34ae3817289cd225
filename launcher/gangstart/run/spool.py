"""The step's folder on a node where no plugin makes one: key and user/ for the library.

BASE/gangstart-UID/NAME, BASE being XDG_RUNTIME_DIR or the temporary directory; all of
it belongs to the user and to nobody else. NAME comes from the key, so that the ranks of
a node find the same one and nobody could have made it before them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat

from gangstart import iface
from gangstart.run.launched import own_step
from gangstart.run.place import fresh, remove, temporary
from gangstart.stepkey import NAME, StepKey, line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KEEP = 20  # runs of a user on a node
RUN = re.compile(r"\d+\.\d+-[0-9a-f]{16}")


def base_of(env: Mapping[str, str]) -> str:
    """Where this user's runs are on this node."""
    runtime = env.get("XDG_RUNTIME_DIR", "")
    base = runtime if runtime.startswith("/") and os.path.isdir(runtime) else ""
    return f"{base or temporary(env)}/gangstart-{os.getuid()}"


def own_folder(path: str) -> None:
    """Make a private folder; raises OSError if one is there that is not ours alone."""
    with contextlib.suppress(FileExistsError):  # whose it is comes next
        os.mkdir(path, 0o700)
    info = os.lstat(path)
    private = stat.S_ISDIR(info.st_mode) and not info.st_mode & 0o077
    if not private or info.st_uid != os.getuid():
        raise PermissionError(1, "is not a folder of this user alone")


def make(env: Mapping[str, str], step: tuple[int, int], key: bytes) -> dict[str, str]:
    """Make the folder of a start; the variables that tell the program of it.

    Without a folder, as where /tmp is full, heartbeats and barriers are not to be had,
    and only that.
    """
    told = {"GANGSTART_RUN": own_step(env)}
    made = StepKey(iface.seal(key, b"gangstart meet 1"), (0, 0))
    tag = iface.seal(made.key, b"folder")[:8].hex()
    base = base_of(env)
    path = f"{base}/{step[0]}.{step[1]}-{tag}"
    try:
        own_folder(base)
        prune(base)
        own_folder(path)
        own_folder(f"{path}/user")
        leave(path, made)
    except OSError:
        return told
    return {**told, "GANGSTART_SPOOL": path}


def leave(path: str, made: StepKey) -> None:
    """Put the key there, whole; the ranks of a node all write the same."""
    fd, whole = fresh(path, ".key-")
    with os.fdopen(fd, "wb") as file:
        file.write(line_of(made))
    os.replace(whole, f"{path}/{NAME}")


class Held:
    """A folder in use: the last one to let go of it takes the key away."""

    def __init__(self, folder: str) -> None:
        """Hold it; "" is none."""
        self._path = folder
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if folder else -1
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def close(self) -> None:
        """Let go of it."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # others hold it
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(f"{self._path}/{NAME}")
        os.close(self._fd)
        self._fd = -1


def prune(base: str) -> None:
    """Remove the oldest runs that nobody holds when there are more than KEEP.

    The other ranks of this node do so at the same moment: what one of them has removed
    is no reason for this one to go without a folder.
    """
    with os.scandir(base) as entries:
        named = [one for one in entries if RUN.fullmatch(one.name)]
    found = [one.path for one in named if not one.is_symlink()]
    if len(found) <= KEEP:
        return
    found.sort(key=changed)
    for path in found[: len(found) - KEEP]:
        with contextlib.suppress(OSError):  # it is in use, or gone already
            drop(path)


def changed(path: str) -> float:
    """When a folder changed last, Unix time; one that is gone is the oldest."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def drop(path: str) -> None:
    """Remove the folder of a run; raises OSError if it is in use or gone."""
    import shutil  # noqa: PLC0415 - only where there is something to remove

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)
