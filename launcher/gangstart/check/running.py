"""Which jobs run on this node, without asking Slurm: a Prolog must never do that.

Three places tell: slurmstepd processes of root name their step, Slurm's cgroups name
their job, and a job whose prolog check was recorded and whose epilog's was not has not
ended, even if no step of it runs at the moment. What only might run counts: the worst
that this does is to leave something alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.check.leftover import ROOT, SLURM_CGROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEPD = re.compile(r"slurmstepd: \[(\d{1,10})(?:[.+]([^\]]*))?\]")
EXTERN = "extern"
CGROUP_ROOT = Path("/sys/fs/cgroup")
#: Where Slurm's cgroups are, below the root of version 2 or of a version 1 hierarchy.
SLURM_SCOPES = (
    "slurm*",
    "*/slurm*",
    "system.slice/*slurmstepd.scope",
    "slurm*/uid_*",
    "*/slurm*/uid_*",
)
JOB_FOLDER = re.compile(r"job_(\d{1,10})")
PROCS_BYTES = 1 << 16
DEPTH = 6  # job/step/user/task, and the two between that some versions add
FOLDERS = 4096


def step_of(title: str) -> tuple[int, str] | None:
    """Job and step in the title of a slurmstepd: ``slurmstepd: [501.batch]``."""
    found = STEPD.match(title)
    return (int(found[1]), found[2] or "") if found else None


def of_stepds(titles: Iterable[tuple[int | None, str]], inside: int | None) -> set[int]:
    """Jobs of (uid, title) pairs.

    With PrologFlags=RunInJob an epilog runs inside of its job: then that job's extern
    step is there for the epilog only, and does not count.
    """
    steps = {step_of(title) for uid, title in titles if uid == ROOT}
    return {s[0] for s in steps if s and not (s[0] == inside and s[1] == EXTERN)}


def of_cgroups(root: Path, judged: int | None) -> set[int] | None:
    """Jobs whose cgroup holds a process; None if there is no cgroup file system.

    The cgroup of the job that is judged says nothing: what it left may be in there.
    """
    if not root.is_dir():
        return None
    found = set[int]()
    for folder in job_folders(root):
        job = JOB_FOLDER.fullmatch(folder.name)
        if job and int(job[1]) not in found | {judged} and populated(folder, DEPTH):
            found.add(int(job[1]))
    return found


def job_folders(root: Path) -> Iterator[Path]:
    """Folders of jobs in Slurm's cgroups."""
    for scope in SLURM_SCOPES:
        for folder in root.glob(f"{scope}/job_*"):
            if SLURM_CGROUP.search(str(folder)) and not folder.is_symlink():
                yield folder


def populated(folder: Path, depth: int) -> bool:
    """Whether a cgroup or one below has a process."""
    if has_process(folder):
        return True
    if not depth:
        return False
    try:
        with os.scandir(folder) as listed:
            below = [e.name for e in listed if e.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    return any(populated(folder / name, depth - 1) for name in below[:FOLDERS])


def has_process(folder: Path) -> bool:
    """Whether a cgroup itself has one; zombies are not listed."""
    try:
        with (folder / "cgroup.procs").open("rb") as file:
            return bool(file.read(PROCS_BYTES).strip())
    except OSError:
        return False
