"""Jobs of every kind that triage must read, submitted to a private cluster.

Each script ends by itself or waits for a file, so that nothing depends on speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gangstart.cluster import daemons
from triage.source.accounting import until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from gangstart.cluster import Cluster

SCRIPTS = {
    "ok": "srun -n4 -o {dir}/ok-%j-%t.log hostname\n",
    "bad": "srun sh -c '[ $SLURM_PROCID != 2 ] || exit 3'\n",
    # slurmctld may hear of the script's end before it hears of the step's; it derives
    # the job's code from the steps that it has heard of by then.
    "seg": "srun sh -c '[ $SLURM_PROCID = 1 ] && kill -SEGV $$; exit 0'; code=$?\n"
    "while squeue -hs -j $SLURM_JOB_ID | grep -qw $SLURM_JOB_ID.0; do sleep 0.1; done\n"
    "exit $code\n",
    "array": "echo $SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID\n",
    "het": "srun --het-group=0,1 hostname\n",
    # Ends later than it begins, by sacct too, which counts whole seconds.
    "again": "echo $SLURM_RESTART_COUNT\n"
    "[ -e {dir}/go ] && sleep 2 && exit 4\nsleep 300\n",
    "canc": "echo started; exec sleep 300\n",
    "limit": "exec sleep 300\n",
    "failing": "exit 139\n",
    "fine": "echo hello\n",
}
ANY = range(256)  # sbatch --wait ends with the job's code


@dataclass
class Workload:
    """Submits jobs as a user and remembers their numbers by name."""

    cluster: Cluster
    folder: Path
    user: str = ""
    ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the scripts."""
        for name, body in SCRIPTS.items():
            text = "#!/bin/sh\n" + body.replace("{dir}", str(self.folder))
            (self.folder / f"{name}.sh").write_text(text)

    def run(self, *argv: str, user: str | None = None, codes: range = range(1)) -> str:
        """Run a command of Slurm on the head; it must end with one of the codes."""
        done: subprocess.CompletedProcess[str] = self.cluster.run(
            ["env", "-C", str(self.folder), *argv],
            user=self.user if user is None else user,
            env=daemons.environment(self.cluster.spec),
        )
        assert done.returncode in codes, f"{argv}: {done.stderr}"
        return done.stdout

    def submit(self, name: str, *options: str, script: str = "") -> int:
        """Submit a script; returns the job's number."""
        path = str(self.folder / f"{script or name}.sh")
        told = self.run("sbatch", "--parsable", "-J", name, *options, path, codes=ANY)
        self.ids[name] = int(told.partition(";")[0])
        return self.ids[name]

    def wait(self, name: str, states: Sequence[str]) -> None:
        """Wait until every part of a job is in one of these states."""
        number = str(self.ids[name])
        argv = ("squeue", "-h", "-t", "all", "-o", "%T", "-j", number)

        def there() -> bool:
            told = set(self.run(*argv).split())
            return bool(told) and told <= set(states)

        until(there, f"{name} to be one of {states}", 100)

    def hurry(self, name: str) -> None:
        """Wait until a job that was requeued has begun again.

        Slurm makes it wait two minutes, and once more when its first run is cleaned up.
        """
        job = str(self.ids[name])
        shown = ("squeue", "-h", "-t", "all", "-o", "%T|%r|%S", "-j", job)
        soon = ("scontrol", "update", f"JobId={job}", "StartTime=now+2")

        def begun() -> bool:
            state, reason, start = self.run(*shown).strip().split("|")
            if state != "PENDING":
                return state != "COMPLETING"
            if reason != "BeginTime" or start == "N/A":
                return False
            if datetime.fromisoformat(start) > datetime.now() + timedelta(seconds=10):  # noqa: DTZ005 - Slurm's too has no zone
                self.run(*soon, user="root")
            return False

        until(begun, f"{name} to begin again", 100)


def ended(work: Workload) -> None:
    """Jobs that end one way or another, all of them waited for."""
    work.submit("ok", "-N2", "-n4", "-o", str(work.folder / "ok-%j.out"))
    work.submit("bad", "-N4", "-n4", "-o", "bad-%j.out", "-e", "bad-%x-%5j.err")
    work.submit("seg", "-N2", "-n2", "-o", "seg-%u-%j.out")
    work.submit("array", "-a", "0-2%2", "-n1", "-o", "arr-%A_%a.out")
    work.submit("het", "-N1", "-n1", ":", "-N2", "-n2")
    work.submit("canc", "-N1")
    work.submit("held", "-N1", "-H", script="ok")
    work.submit("again", "-N2", "-n2", "--requeue", "--open-mode=append")
    for name in ("again", "canc"):
        work.wait(name, ["RUNNING"])
    work.run("scancel", str(work.ids["canc"]), user="root")
    work.run("scancel", str(work.ids["held"]), user="root")
    (work.folder / "go").touch()
    work.run("scontrol", "requeue", str(work.ids["again"]), user="root")
    work.hurry("again")
    done = ("COMPLETED", "FAILED", "CANCELLED")
    for name in ("ok", "bad", "seg", "array", "het", "canc", "held", "again"):
        work.wait(name, done)
