"""A real cluster whose Slurm runs the scripts of slurm-conf, and what they leave."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gangstart
import jsonschema
from cluster.fakegpus import Gpus
from cluster.gang import until
from gangstart.cluster import Spec
from repo import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Gang

CONF = ROOT / "slurm-conf"
SCHEMA = json.loads((ROOT / "docs" / "check.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
#: Jobs of other clusters on this machine are seen too, and must not be taken for ours.
FIRST_JOB = 1_000_000 + os.getpid() % 500_000 * 100


class Scripts:
    """The scripts as a site installs them, in a folder that every node sees."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.env: dict[str, str] = {}
        (folder / "gpu").mkdir()
        probe = Path(gangstart.__file__).with_name("gangstart-probe")
        self.gpus = Gpus(folder / "gpu", library, probe)
        self.program = folder / "gangstart"
        path = os.pathsep.join(sys.path)
        self.write(
            self.program,
            f'PYTHONPATH={path} exec {sys.executable} -m gangstart "$@"',
        )
        self.install()

    def write(self, path: Path, body: str) -> None:
        """Make a script."""
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def install(self, **env: str) -> None:
        """Put each script there, with what a site may set."""
        self.env |= {"GANGSTART": str(self.program)} | env
        told = " ".join(f"{name}={value}" for name, value in self.env.items())
        for name in ("prolog.d/50-gangstart", "epilog.d/50-gangstart", "healthcheck"):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            self.write(path, f"{told} exec {CONF / name}")

    def spec(self, *lines: str, hooks: str = "off") -> Spec:
        """A cluster that runs them."""
        own = (
            f"Prolog={self.folder}/prolog.d/*",
            f"Epilog={self.folder}/epilog.d/*",
            f"FirstJobId={FIRST_JOB}",
        )
        arguments = (*self.gpus.arguments.split(), f"hooks={hooks}")
        return Spec(slurm_lines=(*own, *lines), plugin_args=arguments)


class Site:
    """What the tests ask of such a cluster."""

    def __init__(self, gang: Gang, scripts: Scripts) -> None:
        self.gang = gang
        self.scripts = scripts
        self.gpus = scripts.gpus

    def batch(self, *options: str, script: str = "true") -> str:
        """Submit a job; its id."""
        path = self.gang.folder / "job.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        output = f"--output={self.gang.folder}/out"
        ran = self.gang.run(["sbatch", "--parsable", output, *options, str(path)])
        assert ran.code == 0, ran.err
        return ran.out.strip()

    def drained(self) -> dict[str, str]:
        """Every node that is drained, with Slurm's reason."""
        found = {}
        for node in self.gang.cluster.nodes:
            told = self.gang.run(["scontrol", "show", "node", node]).out
            reason = re.search(r"Reason=(.*?) \[", told)
            if re.search(r"State=\S*DRAIN", told):
                found[node] = reason[1] if reason else ""
        return found

    def until_drained(self, node: str) -> None:
        """Wait until a node is drained."""
        until(lambda: node in self.drained(), f"{node} to be drained")

    def path(self, job: str, node: str = "n1") -> Path:
        """Where a node keeps what was found around a job."""
        run = self.gang.cluster.directory / "node" / node / "run"
        return run / f"{job}.node/sys/events.jsonl"

    def archived(self, job: str, node: str = "n1") -> Path:
        """The same in the archive."""
        archive = self.gang.cluster.directory / "archive"
        return archive / f"{job}.node" / node / "sys/events.jsonl"

    def events(self, job: str, count: int, node: str = "n1") -> list[dict[str, Any]]:
        """The checks of a job, as soon as there are so many."""
        path = self.path(job, node)
        until(lambda: len(checks(path)) >= count, f"{count} checks in {path}")
        return checks(path)

    def log(self, node: str = "n1") -> str:
        """What slurmd of a node said."""
        return (self.gang.cluster.directory / "log" / f"slurmd.{node}.log").read_text()

    def begun(self, *options: str, script: str = "") -> tuple[str, Callable[[], None]]:
        """Start a job that runs until the function is called."""
        begun, go_on = self.gang.folder / "begun", self.gang.folder / "go-on"
        wait = f"touch {begun}\nwhile [ ! -e {go_on} ]; do sleep 0.05; done"
        job = self.batch(*options, script=f"{script}\n{wait}")
        until(begun.exists, "the job to begin")
        return job, go_on.touch


def checks(path: Path) -> list[dict[str, Any]]:
    """Records of checks, not those of what was cleaned up."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        VALID.validate(line)
    return [line for line in lines if line["event"] == "check"]
