"""Which Slurm the tests' private clusters run: --slurm LINE, or the machine's own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gangstart.cluster import daemons, lifecycle
from gangstart.plugin import path, recipe
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from gangstart.cluster import Spec
    from gangstart.plugin.recipe import Line


@dataclass
class Chosen:
    """What was asked for on pytest's command line; "" is the machine's own Slurm."""

    line: str = ""


CHOSEN = Chosen()


def own() -> bool:
    """Whether it is the Slurm of this machine."""
    return not CHOSEN.line


def folder(line: str = "") -> str | None:
    """Root with a release line (default: the chosen one); None if it was not made."""
    made = subprocess.run(
        [ROOT / "scripts" / "roots.sh", "--path", line or CHOSEN.line],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return made.stdout.strip() or None


def why_not() -> str | None:
    """Why the chosen Slurm cannot be run here; None if it can."""
    if own() or folder() is not None:
        return None
    return f"no folder with Slurm {CHOSEN.line} here: make roots"


def root() -> str:
    """The chosen root; "" for the machine's own Slurm."""
    return "" if own() else folder() or ""


def placed(spec: Spec) -> Spec:
    """The same cluster, with the chosen Slurm."""
    if own():
        return spec
    return replace(spec, root=root(), binds=(str(ROOT), *spec.binds))


def options() -> list[str]:
    """The same for `gangstart cluster up`."""
    return [] if own() else ["--root", root(), "--bind", str(ROOT)]


def line() -> Line:
    """Release line that the clusters run."""
    tools = daemons.find_tools(lifecycle.search_path(), root())
    return daemons.release(tools["slurmd"], root())


def plugin() -> Path:
    """The plugin for it."""
    return path.find(line())


def since(text: str) -> bool:
    """Whether the clusters run this release line or a newer one."""
    wanted = recipe.parse(text)
    assert wanted is not None
    return line() >= wanted


def include(work: Path) -> Path:
    """Folder with that Slurm's headers and nothing else, made below `work`."""
    made = work / "include"
    made.mkdir()
    (made / "slurm").symlink_to(f"{root()}/usr/include/slurm")
    return made
