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
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart import iface
from gangstart.step import own_step
from gangstart.stepkey import NAME, StepKey, line_of

if TYPE_CHECKING:
    from collections.abc import Mapping

KEEP = 20  # runs of a user on a node
RUN = re.compile(r"\d+\.\d+-[0-9a-f]{16}")


def base_of(env: Mapping[str, str]) -> Path:
    """Where this user's runs are on this node."""
    runtime = env.get("XDG_RUNTIME_DIR", "")
    base = runtime if runtime.startswith("/") and Path(runtime).is_dir() else ""
    return Path(base or tempfile.gettempdir()) / f"gangstart-{os.getuid()}"


def own_folder(path: Path) -> None:
    """Make a private folder; raises OSError if one is there that is not ours alone."""
    with contextlib.suppress(FileExistsError):  # whose it is comes next
        path.mkdir(mode=0o700)
    info = path.lstat()
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
    path = base_of(env) / f"{step[0]}.{step[1]}-{tag}"
    try:
        own_folder(path.parent)
        prune(path.parent)
        own_folder(path)
        own_folder(path / "user")
        leave(path, made)
    except OSError:
        return told
    return {**told, "GANGSTART_SPOOL": str(path)}


def leave(path: Path, made: StepKey) -> None:
    """Put the key there, whole; the ranks of a node all write the same."""
    fd, fresh = tempfile.mkstemp(prefix=".key-", dir=path)
    with os.fdopen(fd, "wb") as file:
        file.write(line_of(made))
    Path(fresh).replace(path / NAME)


class Held:
    """A folder in use: the last one to let go of it takes the key away."""

    def __init__(self, folder: str) -> None:
        """Hold it; "" is none."""
        self._path = Path(folder)
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if folder else -1
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def close(self) -> None:
        """Let go of it."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # others hold it
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self._path / NAME).unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1


def prune(base: Path) -> None:
    """Remove the oldest runs that nobody holds when there are more than KEEP."""
    found = [p for p in base.iterdir() if RUN.fullmatch(p.name) and not p.is_symlink()]
    found.sort(key=lambda p: p.stat().st_mtime)
    for path in found[: max(0, len(found) - KEEP)]:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(fd)
