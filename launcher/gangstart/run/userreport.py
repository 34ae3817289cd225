"""The user's own copy of the report, where srun's would go, and the lines on stderr."""

from __future__ import annotations

import contextlib
import os

from gangstart.run.control import say
from gangstart.run.place import fresh, remove

TYPE_CHECKING = False
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
        self.base: str | None = None
        if state.startswith("/"):
            self.base = state
        elif home.startswith("/") and os.path.isdir(home):
            self.base = f"{home}/.local/state"

    def keep(self, step: tuple[int, int], report: str) -> tuple[str, str]:
        """Write it; its path ("" = none), and a line if a wanted one failed."""
        if self.wanted == "none" or (not self.wanted and self.base is None):
            return "", ""
        path = self.wanted or self._place(step)
        try:
            if not self.wanted:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write(path, report)
        except OSError as error:
            why = error.strerror or str(error)
            line = f"gang-start: the report cannot be written to {path}: {why}\n"
            return "", line if self.wanted else ""
        if not self.wanted:
            with contextlib.suppress(OSError):  # another start has removed it
                prune(os.path.dirname(path))
        return path, ""

    def _place(self, step: tuple[int, int]) -> str:
        return f"{self.base}/gangstart/{self.cluster}/{step[0]}.{step[1]}.json"

    def say(self, text: str) -> None:
        """Print the lines of the start in one go, if anybody takes them."""
        say(text)


def write(path: str, report: str) -> None:
    """Put a report in its place in one move; only a plain file may be there."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise FileExistsError(17, "there is something that is no plain file")
    fd, made = fresh(os.path.dirname(path), ".start-")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(report)
        os.replace(made, path)
    except OSError:
        remove(made)
        raise


def prune(folder: str) -> None:
    """Remove the oldest report when there are more than KEEP."""
    with os.scandir(folder) as entries:
        named = [one for one in entries if one.name.endswith(".json")]
    found = [one for one in named if one.is_file()]
    if len(found) > KEEP:
        remove(min(found, key=lambda one: one.stat().st_mtime).path)
