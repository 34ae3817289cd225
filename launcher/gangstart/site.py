"""Which Slurm this machine has, as its commands say it."""

from __future__ import annotations

import subprocess

VERSION_S = 5.0  # it asks nobody; only a sick file system makes it slow


def slurm_version() -> str:
    """The release of this machine's Slurm, such as 22.05.8; "" = it does not say."""
    try:
        done = subprocess.run(
            ["scontrol", "--version"],  # noqa: S607 - the user's own PATH
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else ""
