"""Where the bench finds things, and commands that must succeed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "bench"
AGENTS = BUILT / "agents"
STAMP = BUILT / "stamp"
#: A namespace without connection tracking, whose table a few thousand connections
#: would fill, and without DNS, which torch asks about every connection.
ALONE = (
    'ip link set lo up && mount --bind "$1" /etc/nsswitch.conf && shift && exec "$@"'
)


def command(argv: Sequence[str | Path], seconds: float) -> str:
    """Run a command to its end and return its output; a failure ends the bench."""
    done = subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(
            f"bench: {' '.join(map(str, argv))} ended with code {done.returncode}: "
            f"{done.stderr.strip()}"
        )
    return done.stdout


def alone(argv: Sequence[str | Path], seconds: float) -> str:
    """Run a command in a network of its own; only /etc/hosts resolves names there."""
    names = BUILT / "nsswitch.conf"
    names.write_text("passwd: files\ngroup: files\nhosts: files\n")
    return command(["unshare", "-nm", "sh", "-c", ALONE, "sh", names, *argv], seconds)
