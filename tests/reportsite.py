"""A machine to look for start reports on, and reports written by the core itself."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from core.c import lib
from core.gangs import SECOND, T0, Gang, Story, offer

if TYPE_CHECKING:
    from pathlib import Path


class Site(NamedTuple):
    """A machine to look for reports on: nothing of the real one is seen."""

    root: Path

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def spool(self) -> Path:
        return self.root / "run"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the real command."""
        given = {
            "PATH": os.defpath,
            "HOME": str(self.root),
            "XDG_STATE_HOME": str(self.state),
            "SLURM_CONF": str(self.root / "slurm" / "slurm.conf"),
            "TZ": "UTC",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONIOENCODING": "utf-8",
        }
        return subprocess.run(
            [sys.executable, "-m", "gangstart", "report", *arguments],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            env=given | env,
        )

    def shown(self, *arguments: str) -> str:
        """What it shows; it must succeed and say nothing else."""
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refused(self, *arguments: str, code: int = 1) -> str:
        """The one sentence that it fails with."""
        done = self.run(*arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("gangstart: report: ")
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix("gangstart: report: ").rstrip("\n")

    def keep_archived(self, step: str, report: str) -> Path:
        """Put a complete report where the epilog puts it."""
        return put(self.archive / step / "start.json", report)

    def keep_spooled(self, step: str, report: str) -> Path:
        """Put a report where slurmstepd puts it."""
        return put(self.spool / step / "sys" / "start.json", report)

    def keep_own(self, cluster: str, step: str, report: str) -> Path:
        """Put a report where srun puts the user's copy."""
        return put(self.state / "gangstart" / cluster / f"{step}.json", report)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def made_site(folder: Path) -> Site:
    """Make a machine whose plugstack.conf names an archive and a spool."""
    made = Site(folder)
    put(
        folder / "slurm" / "plugstack.conf",
        "# a comment\noptional other.so archive=/elsewhere\n"
        "include plugstack.conf.d/*.conf\n",
    )
    put(
        folder / "slurm" / "plugstack.conf.d" / "gangstart.conf",
        "# optional spank_gangstart.so archive=/wrong\n"
        f"optional /usr/lib/spank_gangstart.so auto=gpu archive={made.archive} "
        f"spool={made.spool} # the end\n",
    )
    return made


def refused(**fields: object) -> Story:
    """Four nodes: one never came, one is short of a rank, one was late."""
    gang = Gang(nodes=4)
    for node, when in ((0, 0.2), (1, 0.3), (3, 12.0)):
        gang.hello(node, int(T0 + when * SECOND))
    for rank, when in ((0, 0.3), (1, 0.4), (2, 0.5), (6, 12.5), (7, 30.0)):
        gang.arrive(rank, int(T0 + when * SECOND))
    assert gang.tick(T0 + 60_200_000) == lib.GS_REFUSED
    return Story(gang, **fields)


def started(nodes: int = 3, **fields: object) -> Story:
    """A good start over the second address, with the user's own port."""
    gang = Gang(nodes)
    for node in range(nodes):
        gang.hello(node, T0 + SECOND)
        for rank in gang.ranks(node):
            gang.arrive(rank, T0 + SECOND + node * 10_000)
    assert gang.tick(T0 + 2 * SECOND) == lib.GS_RELEASED
    given: dict[str, object] = {
        "master": offer("10.0.0.1", "10.1.0.1", user_port=True),
        "candidate": 1,
        "master_addr": "10.1.0.1",
    }
    return Story(gang, **(given | fields))


def named(step: str, wall_s: int = 1_700_000_000, cluster: str = "test") -> str:
    """A good start's report under another step's name, decided at a moment."""
    story = started(wall_us=wall_s * SECOND, cluster=cluster)
    job, number = map(int, step.split("."))
    story.gang.c.job_id, story.gang.c.step_id = job, number
    return story.raw_report()
