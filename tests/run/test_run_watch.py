"""MPI that hangs, dies or lies: a module of ours in mpi4py's place, and no launcher."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from run.mpitools import GANGSTART, PREFIXES, is_alive, until

if TYPE_CHECKING:
    from pathlib import Path

#: What MPI_Init does. PyDLL keeps the interpreter's lock, as MPI_Init does.
HANGS = "ctypes.PyDLL(None).sleep(300)"
DIES = "os.kill(os.getpid(), 11)"
FAILS = "raise RuntimeError('PMI says no')"
RANK_3 = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "PMIX_RANK": "3",
}


def started(
    folder: Path, init: str, *words: str, env: dict[str, str] = RANK_3, head: str = ""
) -> subprocess.Popen[str]:
    """Start it as rank 3 of 4 of an mpirun, with an mpi4py that does this."""
    package = folder / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text(f"{head}\nclass rc: pass\n")
    (package / "MPI.py").write_text(
        "import ctypes, os\n"
        "THREAD_FUNNELED = 1\n"
        "def get_vendor(): return 'Open MPI', (4, 1, 4)\n"
        "def Init_thread(level):\n"
        f"    open({str(folder / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        f"    {init or 'pass'}\n"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    mine = {"PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    return subprocess.Popen(
        [GANGSTART, "run", *words, "--", "echo", "ran"],
        env={**kept, **env, **mine},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("init", "said"),
    [
        (HANGS, "refused after 1 s: MPI_Init, called by gangstart run, has not"),
        (DIES, "Open MPI 4.1.4 ended the process in MPI_Init with signal 11"),
        (FAILS, "MPI_Init of Open MPI 4.1.4 failed: PMI says no"),
    ],
    ids=["hangs", "dies", "fails"],
)
def test_what_is_known_of_a_bad_mpi_init_is_said_and_the_code_is_75(
    tmp_path: Path, init: str, said: str
) -> None:
    with started(tmp_path, init, "timeout=1") as running:
        out, err = running.communicate(timeout=30)

    assert (running.returncode, out) == (75, "")
    assert said in err
    assert "rank 3 on" in err
    assert "started by Open MPI's mpirun, PMIx" in err
    assert "Traceback" not in err
    until(
        "the worker is gone", lambda: not is_alive(int((tmp_path / "pid").read_text()))
    )


def test_sigterm_during_a_hanging_start_leaves_nothing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with started(tmp_path, HANGS, "timeout=60") as running:
        until("MPI_Init is called", lambda: pid.exists() and bool(pid.read_text()))
        running.terminate()
        running.communicate(timeout=30)

    assert running.returncode == 143
    assert list(tmp_path.glob("*.marks")) == []
    until("the worker is gone", lambda: not is_alive(int(pid.read_text())))


def test_a_launcher_without_mpi4py_is_told_what_to_install(tmp_path: Path) -> None:
    with started(tmp_path, "", head="raise ModuleNotFoundError('mpi4py')") as running:
        _, err = running.communicate(timeout=30)

    assert running.returncode == 78
    assert "pip install 'gangstart[mpi]'" in err


def test_a_library_that_cannot_talk_to_its_launcher_is_told_which_can(
    tmp_path: Path,
) -> None:
    mpich = {"PMI_RANK": "0", "PMI_SIZE": "4", "PMI_FD": "9", "MPI_LOCALRANKID": "0"}
    with started(tmp_path, DIES, "timeout=5", env=mpich) as running:
        _, err = running.communicate(timeout=30)

    assert running.returncode == 78
    assert "Open MPI 4.1.4 wants PMIx and was offered MPICH's mpiexec (PMI)" in err
    assert "use Open MPI's mpirun" in err
