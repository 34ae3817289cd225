"""The user's own copy of the report, where srun's would go, and the lines on stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KEEP = 200  # reports of one cluster


class Reports:
    """Where the report of this start goes.

    wanted: report= of the SPEC, an absolute path, "none" or "" (below XDG_STATE_HOME);
    cluster: Slurm's name of it, "local" outside of Slurm.
    """

    def __init__(self, env: Mapping[str, str], wanted: str) -> None:
        """Take the places from the environment."""
        self.cluster = env.get("SLURM_CLUSTER_NAME", "") or "local"
        self.wanted = wanted
        state, home = env.get("XDG_STATE_HOME", ""), env.get("HOME", "")
        self.base: Path | None = None
        if state.startswith("/"):
            self.base = Path(state)
        elif home.startswith("/") and Path(home).is_dir():
            self.base = Path(home) / ".local" / "state"

    def keep(self, step: tuple[int, int], report: str) -> tuple[str, str]:
        """Write it; its path ("" = none), and a line if a wanted one failed."""
        if self.wanted == "none" or (not self.wanted and self.base is None):
            return "", ""
        path = Path(self.wanted) if self.wanted else self._place(step)
        try:
            if not self.wanted:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(path, report)
        except OSError as error:
            why = error.strerror or str(error)
            line = f"gang-start: the report cannot be written to {path}: {why}\n"
            return "", line if self.wanted else ""
        if not self.wanted:
            prune(path.parent)
        return str(path), ""

    def _place(self, step: tuple[int, int]) -> Path:
        base = self.base or Path("/")
        return base / "gangstart" / self.cluster / f"{step[0]}.{step[1]}.json"

    def say(self, text: str) -> None:
        """Print the lines of the start in one go."""
        sys.stderr.write(text)
        sys.stderr.flush()


def write(path: Path, report: str) -> None:
    """Put a report in its place in one move; only a plain file may be there."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileExistsError(17, "there is something that is no plain file")
    fd, made = tempfile.mkstemp(prefix=".start-", dir=path.parent)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(report)
        Path(made).replace(path)
    except OSError:
        Path(made).unlink(missing_ok=True)
        raise


def prune(folder: Path) -> None:
    """Remove the oldest report when there are more than KEEP."""
    found = [p for p in folder.glob("*.json") if p.is_file()]
    if len(found) > KEEP:
        min(found, key=lambda p: p.stat().st_mtime).unlink(missing_ok=True)
