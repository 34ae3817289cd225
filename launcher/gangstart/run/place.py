"""Files and programs by plain strings: what pathlib, tempfile and shutil would do.

Every rank loads what the start needs, and those three cost it 10 ms.
"""

from __future__ import annotations

import errno
import os
import stat

from gangstart import iface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPORARY = "/tmp"  # noqa: S108 - where TMPDIR does not say otherwise


def temporary(env: Mapping[str, str]) -> str:
    """The folder for temporary files: TMPDIR if it is one, else /tmp."""
    told = env.get("TMPDIR", "")
    return told if told.startswith("/") and os.path.isdir(told) else TEMPORARY


def fresh(folder: str, prefix: str) -> tuple[int, str]:
    """Make a private file of a name that nobody can foresee: descriptor and path."""
    path = f"{folder}/{prefix}{iface.random_bytes(8).hex()}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600), path


def remove(path: str) -> None:
    """Remove a file; one that is gone is fine."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def is_program(path: str) -> bool:
    """Whether this process may execute a file."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False


def program_errno(program: str, env: Mapping[str, str]) -> int:
    """The errno that executing ``program`` would give here, 0 = it can be run."""
    folders = [""] if "/" in program else env.get("PATH", os.defpath).split(":")
    paths = [os.path.join(folder, program) for folder in folders]
    if any(map(is_program, paths)):
        return 0
    for path in paths:
        if os.path.exists(path):
            return errno.EACCES
    try:
        os.stat(program)
    except OSError as error:
        return error.errno or errno.ENOENT
    return errno.ENOENT
